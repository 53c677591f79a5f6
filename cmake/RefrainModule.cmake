# refrain_module(NAME [DEPS module...] [PRIVATE library...] [PUBLIC library...])
# One static library `refrain_NAME` from src/NAME/*.cpp (main.cpp apart). A module without sources
# becomes an interface library, so that the layers can be listed before they are filled.
add_library(refrain_options INTERFACE)
target_compile_options(refrain_options INTERFACE -Wall -Wextra -Wshadow -Wnon-virtual-dtor
                       -Wno-missing-field-initializers)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  # g++ 12 reports false positives here in code that the optimiser has unrolled.
  target_compile_options(refrain_options INTERFACE -Wno-maybe-uninitialized -Wno-restrict
                         -Wno-stringop-overflow -Wno-array-bounds)
endif()
if(REFRAIN_WERROR)
  target_compile_options(refrain_options INTERFACE -Werror)
endif()
if(REFRAIN_SANITIZE)
  target_compile_options(refrain_options INTERFACE -fsanitize=${REFRAIN_SANITIZE}
                         -fno-omit-frame-pointer -fno-sanitize-recover=all)
  target_link_options(refrain_options INTERFACE -fsanitize=${REFRAIN_SANITIZE})
endif()
if(REFRAIN_FUZZ)
  target_compile_options(refrain_options INTERFACE -fsanitize=fuzzer-no-link)
endif()

# Files named *_avx512.cpp and *_avx2.cpp are compiled for that instruction set;
# their module picks one at run time. Where products and sums are fused is said by the source, not
# left to the compiler, so that kernels of several instruction sets round alike.
function(refrain_instruction_set_flags)
  if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
    foreach(source ${ARGN})
      if(source MATCHES "_avx512\\.cpp$")
        set_source_files_properties("${source}" PROPERTIES COMPILE_OPTIONS "-mavx512f;-mavx512dq;-mavx512bw;-mavx512vl;-mavx512vnni;-mfma;-mf16c;-ffp-contract=off")
      elseif(source MATCHES "_avx2\\.cpp$")
        set_source_files_properties("${source}" PROPERTIES COMPILE_OPTIONS "-mavx2;-mfma;-mf16c;-ffp-contract=off")
      elseif(source MATCHES "_portable\\.cpp$")
        set_source_files_properties("${source}" PROPERTIES COMPILE_OPTIONS "-ffp-contract=off")
      endif()
    endforeach()
  endif()
endfunction()

function(refrain_module name)
  cmake_parse_arguments(ARG "" "" "DEPS;PRIVATE;PUBLIC" ${ARGN})
  file(GLOB sources CONFIGURE_DEPENDS "${CMAKE_SOURCE_DIR}/src/${name}/*.cpp")
  list(FILTER sources EXCLUDE REGEX "/main\\.cpp$")
  list(TRANSFORM ARG_DEPS PREPEND "refrain_")
  if(sources)
    refrain_instruction_set_flags(${sources})
    add_library(refrain_${name} STATIC ${sources})
    target_include_directories(refrain_${name} PUBLIC "${CMAKE_SOURCE_DIR}/src")
    target_link_libraries(refrain_${name} PUBLIC ${ARG_DEPS} ${ARG_PUBLIC}
                          PRIVATE ${ARG_PRIVATE} refrain_options)
    # The sanitizer flags must reach whoever links the library.
    if(REFRAIN_SANITIZE)
      target_link_options(refrain_${name} PUBLIC -fsanitize=${REFRAIN_SANITIZE})
    endif()
  else()
    add_library(refrain_${name} INTERFACE)
    target_include_directories(refrain_${name} INTERFACE "${CMAKE_SOURCE_DIR}/src")
    target_link_libraries(refrain_${name} INTERFACE ${ARG_DEPS})
  endif()
endfunction()
