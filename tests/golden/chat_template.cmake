# Chat templates against Python's jinja2: identical text.
add_executable(render_main "${CMAKE_CURRENT_SOURCE_DIR}/../support/render_main.cpp")
target_link_libraries(render_main PRIVATE refrain_text refrain_options nlohmann_json::nlohmann_json)
add_test(NAME golden_chat_template
         COMMAND "${REFRAIN_PYTHON}" "${CMAKE_CURRENT_SOURCE_DIR}/chat_template_test.py"
                 --render $<TARGET_FILE:render_main>
                 --templates "${CMAKE_CURRENT_SOURCE_DIR}/../data/templates")
set_tests_properties(golden_chat_template PROPERTIES LABELS "golden")
add_test(NAME golden_template_differential
         COMMAND "${REFRAIN_PYTHON}" "${CMAKE_CURRENT_SOURCE_DIR}/template_differential_test.py"
                 --render $<TARGET_FILE:render_main> --seed 1 --count 1500)
set_tests_properties(golden_template_differential PROPERTIES LABELS "golden")
