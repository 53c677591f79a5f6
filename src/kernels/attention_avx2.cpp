// The attention kernel for avx2.
#if defined(__x86_64__)
#define REFRAIN_ATTENTION_KERNEL run_attention_avx2
#include "kernels/attention_body.h"
#endif
