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

  // The edges of a cycle, in order; empty when there is none, in O(nodes + edges). If there are cycles it returns a
  // shortest one through any of the first few hundred nodes that are on some.
  [[nodiscard]] std::vector<Edge> shortest_cycle() const;

 private:
  size_t nodes_;
  std::vector<Edge> edges_;
};

}  // namespace bonsai::testing

#endif  // BONSAI_TESTING_GRAPH_H_
