// The attention kernel for any processor.
#define REFRAIN_ATTENTION_KERNEL run_attention_portable
#include "kernels/attention_body.h"
