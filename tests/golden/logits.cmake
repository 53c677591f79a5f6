# Logits and perplexity against the NumPy reference (docs/reference/accuracy.md).
if(TARGET refrain_model)
  add_executable(model_logits "${CMAKE_SOURCE_DIR}/tests/support/logits_main.cpp")
  target_include_directories(model_logits PRIVATE "${CMAKE_SOURCE_DIR}/tests")
  target_link_libraries(model_logits PRIVATE refrain_model refrain_options)
  foreach(part tiny smollm2 gemma3 perplexity)
    add_test(NAME golden_logits_${part}
      COMMAND "${REFRAIN_PYTHON}" "${CMAKE_CURRENT_LIST_DIR}/logits_test.py" ${part}
              --program "$<TARGET_FILE:model_logits>" --tokenizer "$<TARGET_FILE:tokenize_texts>"
              --models "${REFRAIN_DEPS}/models" --generated "${REFRAIN_GENERATED}")
    set_tests_properties(golden_logits_${part} PROPERTIES LABELS "golden" TIMEOUT 600)
  endforeach()
  set_tests_properties(golden_logits_tiny PROPERTIES FIXTURES_REQUIRED generated_models)
  # Dequantizing Gemma's 262,144 output rows in Python takes long.
  set_tests_properties(golden_logits_gemma3 golden_logits_perplexity PROPERTIES LABELS "golden;slow"
                       TIMEOUT 1800)
endif()
