# ggml quantizes and dequantizes for the tests of the products.
target_link_libraries(unit_kernels PRIVATE refrain::ggml)
