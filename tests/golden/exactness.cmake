# Bitwise equality on a real model: many short histories, and a few that cross an attention split.
# Alone, for a few threads more than cores make it slow.
foreach(set "short;48;64;1" "long;2;560;101")
  list(POP_FRONT set name trials tokens first)
  add_test(NAME golden_exact_smol_${name}
    COMMAND refrain eval exact --model "${REFRAIN_DEPS}/models/SmolLM2-135M-Instruct.Q4_1.gguf" --seed 1
            --trials ${trials} --trial-tokens ${tokens} --first-trial ${first})
  set_tests_properties(golden_exact_smol_${name} PROPERTIES LABELS "golden;slow" TIMEOUT 600 RUN_SERIAL ON)
endforeach()
