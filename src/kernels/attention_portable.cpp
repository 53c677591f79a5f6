// The attention kernels for any processor.
#define REFRAIN_ATTENTION_F16 run_attention_f16_portable
#define REFRAIN_ATTENTION_Q8 run_attention_q8_portable
#define REFRAIN_STORE store_kv_rows_portable
#define REFRAIN_TURN turn_key_tile_portable
#include "kernels/attention_f16_body.h"
#include "kernels/attention_q8_body.h"
#include "kernels/kv_store_body.h"
#include "kernels/kv_turn_body.h"
