// The attention kernels for AVX-512 with byte products.
#if defined(__x86_64__)
#define REFRAIN_ATTENTION_F16 run_attention_f16_avx512
#define REFRAIN_ATTENTION_Q8 run_attention_q8_avx512
#define REFRAIN_STORE store_kv_rows_avx512
#define REFRAIN_TURN turn_key_tile_avx512
#include "kernels/attention_f16_body.h"
#include "kernels/attention_q8_body.h"
#include "kernels/kv_store_body.h"
#include "kernels/kv_turn_body.h"
#endif
