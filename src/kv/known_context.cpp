// How much of its left context a run keeps: see known_context.h. Engine thread.
#include "kv/known_context.h"

#include <bit>
#include <cstdint>
#include <span>
#include <vector>

namespace refrain::kv {
namespace {

// Nodes of runs, each with the first node of its run. Open addressing, never full.
class RunNodes {
 public:
  explicit RunNodes(std::size_t most) : slots_(std::bit_ceil(2 * most + 1)) {}

  // One that is there already keeps its first node.
  void insert(NodeId node, NodeId first) {
    Slot& slot = slots_[index_of(node)];
    if (slot.node == kNoNode) slot = Slot{node, first};
  }
  NodeId first_of_run(NodeId node) const { return slots_[index_of(node)].first; }  // or kNoNode

 private:
  struct Slot {
    NodeId node = kNoNode;
    NodeId first = kNoNode;
  };
  std::size_t index_of(NodeId node) const {
    std::size_t i = (to_int(node) * 0x9E3779B97F4A7C15ULL >> 32U) & (slots_.size() - 1);
    while (slots_[i].node != kNoNode && slots_[i].node != node) i = (i + 1) & (slots_.size() - 1);
    return i;
  }
  std::vector<Slot> slots_;
};

class Context {
 public:
  Context(const PrefixTree& tree, std::span<const BlockId> exact_blocks, std::size_t most_nodes,
          std::size_t steps)
      : tree_(tree), exact_blocks_(exact_blocks), runs_(most_nodes), steps_left_(steps) {}

  // 0..1; 1 if nothing stood in front of its source.
  float share(const SegmentRun& run) {
    if (run.source_begin == 0) return 1;
    const NodeId first = tree_.node_of(run.blocks.front());
    const std::uint32_t in_front = tree_.depth_of(first);
    if (in_front == 0) return 0;  // less than a block
    return static_cast<float>(count_known(tree_.parent_of(first))) / static_cast<float>(in_front);
  }
  // Stands in front of what comes next.
  void add(const SegmentRun& run) {
    const NodeId first = tree_.node_of(run.blocks.front());
    for (BlockId block : run.blocks) runs_.insert(tree_.node_of(block), first);
  }

 private:
  // Of `node` and those above it.
  std::uint32_t count_known(NodeId node) {
    std::uint32_t known = 0;
    for (; node != kNoNode && steps_left_ > 0; --steps_left_) {
      const std::uint32_t depth = tree_.depth_of(node);
      if (depth < exact_blocks_.size() && exact_blocks_[depth] == tree_.block_of(node))
        return known + depth + 1;  // all above it is exact, too
      const NodeId first = runs_.first_of_run(node);
      if (first != kNoNode) {
        known += depth - tree_.depth_of(first) + 1;
        node = first;
      }
      node = tree_.parent_of(node);
    }
    return known;
  }

  const PrefixTree& tree_;
  const std::span<const BlockId> exact_blocks_;
  RunNodes runs_;
  std::size_t steps_left_;
};

}  // namespace

void find_known_context(const PrefixTree& tree, ReusePlan& plan) {
  std::size_t nodes = 0;
  for (const SegmentRun& run : plan.runs) nodes += run.blocks.size();
  Context context(tree, plan.exact_blocks, nodes, plan.tokens.size() / tree.block_size() * 4);
  for (SegmentRun& run : plan.runs) {
    run.known_context = context.share(run);
    context.add(run);
  }
}

}  // namespace refrain::kv
