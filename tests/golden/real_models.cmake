# The real models load, with the numbers that their publishers state.
if(TARGET refrain_model)
  add_executable(golden_real_models "${CMAKE_CURRENT_LIST_DIR}/real_models_test.cpp")
  target_compile_definitions(golden_real_models PRIVATE REFRAIN_TEST_MODELS="${REFRAIN_DEPS}/models")
  target_link_libraries(golden_real_models PRIVATE refrain_model refrain_options GTest::gtest_main)
  add_test(NAME golden_real_models COMMAND golden_real_models)
  set_tests_properties(golden_real_models PROPERTIES LABELS "golden" TIMEOUT 600)
endif()
