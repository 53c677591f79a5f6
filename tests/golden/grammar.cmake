# Constrained decoding over the vocabulary of a real model.
if(TARGET refrain_engine)
  add_executable(golden_grammar "${CMAKE_CURRENT_LIST_DIR}/grammar_test.cpp")
  target_compile_definitions(golden_grammar PRIVATE REFRAIN_TEST_MODELS="${REFRAIN_DEPS}/models")
  target_link_libraries(golden_grammar PRIVATE refrain_engine refrain_options GTest::gtest_main
                        nlohmann_json::nlohmann_json)
  add_test(NAME golden_grammar COMMAND golden_grammar)
  set_tests_properties(golden_grammar PROPERTIES LABELS "golden" TIMEOUT 600)
endif()
