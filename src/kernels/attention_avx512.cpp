// The attention kernel for avx512.
#if defined(__x86_64__)
#define REFRAIN_ATTENTION_KERNEL run_attention_avx512
#include "kernels/attention_body.h"
#endif
