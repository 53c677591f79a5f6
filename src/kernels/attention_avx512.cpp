// The attention kernels for AVX-512 with byte products.
#if defined(__x86_64__)
#define REFRAIN_VARIANT(name) name##_avx512
#include "kernels/attention_f16_body.h"
#include "kernels/attention_q4_body.h"
#include "kernels/attention_q8_body.h"
#include "kernels/kv_store_body.h"
#include "kernels/kv_turn_body.h"
#endif
