# Token ids against the packages `tokenizers` and `sentencepiece` (O-30), computed in the test.
if(TARGET refrain_model)
  add_executable(tokenize_texts "${CMAKE_SOURCE_DIR}/tests/support/tokenize_main.cpp")
  target_include_directories(tokenize_texts PRIVATE "${CMAKE_SOURCE_DIR}/tests")
  target_link_libraries(tokenize_texts PRIVATE refrain_text refrain_model refrain_options)
  # Speed, measured by hand (bench/tokenizer_bench.cpp).
  add_executable(tokenizer_bench EXCLUDE_FROM_ALL "${CMAKE_SOURCE_DIR}/bench/tokenizer_bench.cpp")
  target_include_directories(tokenizer_bench PRIVATE "${CMAKE_SOURCE_DIR}/tests")
  target_link_libraries(tokenizer_bench PRIVATE refrain_text refrain_model refrain_options)
  foreach(reference byte_pair sentence_piece)
    add_test(NAME golden_tokenizer_${reference}
      COMMAND "${REFRAIN_PYTHON}" "${CMAKE_CURRENT_LIST_DIR}/tokenizer_test.py" ${reference}
              --program "$<TARGET_FILE:tokenize_texts>" --models "${REFRAIN_DEPS}/models")
    set_tests_properties(golden_tokenizer_${reference} PROPERTIES LABELS "golden" TIMEOUT 600)
  endforeach()
  if(TARGET refrain)
    add_test(NAME golden_tokenize_endpoint
      COMMAND "${REFRAIN_PYTHON}" "${CMAKE_CURRENT_LIST_DIR}/tokenize_endpoint_test.py"
              --binary "$<TARGET_FILE:refrain>" --models "${REFRAIN_DEPS}/models")
    set_tests_properties(golden_tokenize_endpoint PROPERTIES LABELS "golden" TIMEOUT 120)
  endif()
endif()
