# The table of tensor types is held against ggml.
target_link_libraries(unit_model PRIVATE refrain::ggml)
