// The attention kernels for any processor.
#define REFRAIN_VARIANT(name) name##_portable
#include "kernels/attention_f16_body.h"
#include "kernels/attention_q4_body.h"
#include "kernels/attention_q8_body.h"
#include "kernels/kv_store_body.h"
#include "kernels/kv_turn_body.h"
