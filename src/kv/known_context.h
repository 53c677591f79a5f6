// How much of the text that a run was computed behind also stands in front of it in the prompt of a
// plan: high where a context was edited, low where passages were recombined. A plain function;
// const tree, engine thread.
//
//   source   [ a ][ b ][ c ][ d ][ run ...            prompt   [ a ][ b ][ x ][ d ][ run ...
//                                                     known    a, b (exact), d (earlier run): 3 of
//                                                     4
//
// Counted in whole blocks, upwards from the run. What stands in front of it in one piece, in the
// exact prefix or in an earlier run, is one step; each other block is one, too. All runs of a plan
// together take at most four steps per block of the prompt: what lies beyond, or above a detached
// block, counts as unknown.
#pragma once

#include "kv/ledger.h"
#include "kv/prefix_tree.h"

namespace refrain::kv {

// Fills in `known_context` of each run.
void find_known_context(const PrefixTree& tree, ReusePlan& plan);

}  // namespace refrain::kv
