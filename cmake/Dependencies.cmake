# Everything that is not ours: Debian packages, and ggml and xgrammar as scripts/setup.sh builds them
# from their PyPI sdists into ${REFRAIN_DEPS}. ARCHITECTURE.md says why each one is here.
find_package(Threads REQUIRED)
find_package(PkgConfig REQUIRED)
find_package(spdlog REQUIRED)
find_package(fmt REQUIRED)
find_package(nlohmann_json REQUIRED)
find_package(CLI11 REQUIRED)
find_package(ICU REQUIRED COMPONENTS uc i18n)
find_package(Boost 1.81 REQUIRED)
find_package(prometheus-cpp REQUIRED)
pkg_check_modules(xxhash REQUIRED IMPORTED_TARGET libxxhash)

# ggml: static when built from its sdist, shared when it came as a wheel.
file(GLOB REFRAIN_GGML_CONFIG "${REFRAIN_DEPS}/venv/lib/python3*/site-packages/libggml/lib*/cmake/ggml")
if(NOT REFRAIN_GGML_CONFIG)
  message(FATAL_ERROR "ggml is not in ${REFRAIN_DEPS}; run scripts/setup.sh first")
endif()
find_package(ggml REQUIRED CONFIG PATHS ${REFRAIN_GGML_CONFIG} NO_DEFAULT_PATH)
add_library(refrain_ggml INTERFACE)
add_library(refrain::ggml ALIAS refrain_ggml)
set_property(TARGET ggml::ggml PROPERTY INTERFACE_LINK_OPTIONS "")  # it adds an rpath of its own
target_link_libraries(refrain_ggml INTERFACE ggml::ggml)

# With shared ggml libraries, puts copies beside the binary so that it does not need the
# virtual environment afterwards.
function(refrain_copy_ggml_libraries target)
  file(GLOB libraries "${REFRAIN_GGML_CONFIG}/../../libggml*.so*")
  if(libraries)
    add_custom_command(TARGET ${target} POST_BUILD
      COMMAND ${CMAKE_COMMAND} -E make_directory "$<TARGET_FILE_DIR:${target}>/lib"
      COMMAND ${CMAKE_COMMAND} -E copy_if_different ${libraries} "$<TARGET_FILE_DIR:${target}>/lib"
      VERBATIM)
  endif()
endfunction()

find_library(REFRAIN_XGRAMMAR_LIBRARY xgrammar PATHS "${REFRAIN_DEPS}/xgrammar/lib" NO_DEFAULT_PATH REQUIRED)
add_library(refrain_xgrammar STATIC IMPORTED)
add_library(refrain::xgrammar ALIAS refrain_xgrammar)
set_target_properties(refrain_xgrammar PROPERTIES
  IMPORTED_LOCATION "${REFRAIN_XGRAMMAR_LIBRARY}"
  INTERFACE_INCLUDE_DIRECTORIES "${REFRAIN_DEPS}/xgrammar/include"
  INTERFACE_LINK_LIBRARIES Threads::Threads)
