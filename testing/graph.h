// SPDX-License-Identifier: Apache-2.0
// A directed graph and its shortest cycle: the checkers' common end.
#ifndef BONSAI_TESTING_GRAPH_H_
#define BONSAI_TESTING_GRAPH_H_

#include <cstddef>
#include <cstdint>
#include <vector>

namespace bonsai::testing {

class Graph {
 public:
  struct Edge {
    size_t from;
    size_t to;
    uint64_t label;
  };

  explicit Graph(size_t nodes) : nodes_(nodes) {}
  // Requires: both ends < nodes.
  void add(const Edge& edge) { edges_.push_back(edge); }

  // Returns the edges of a cycle, in order; empty when there is none. Takes O(nodes + edges). Where there are several
  // cycles it returns the shortest one through the first few hundred nodes that are on cycles.
  [[nodiscard]] std::vector<Edge> shortest_cycle() const;

 private:
  size_t nodes_;
  std::vector<Edge> edges_;
};

}  // namespace bonsai::testing

#endif  // BONSAI_TESTING_GRAPH_H_
