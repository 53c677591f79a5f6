# The grammar tests read back what was sampled.
target_link_libraries(unit_engine PRIVATE nlohmann_json::nlohmann_json)
