// SPDX-License-Identifier: Apache-2.0
#include "testing/graph.h"

#include <algorithm>
#include <deque>

namespace bonsai::testing {

namespace {

constexpr size_t kStartsMax = 300;

// Edges by their first end.
class Adjacency {
 public:
  Adjacency(size_t nodes, std::vector<Graph::Edge> edges) : first_(nodes + 1, 0), edges_(std::move(edges)) {
    std::stable_sort(edges_.begin(), edges_.end(), [](const auto& a, const auto& b) { return a.from < b.from; });
    for (const auto& edge : edges_) ++first_[edge.from + 1];
    for (size_t i = 0; i < nodes; ++i) first_[i + 1] += first_[i];
  }
  [[nodiscard]] const Graph::Edge* begin(size_t node) const { return edges_.data() + first_[node]; }
  [[nodiscard]] const Graph::Edge* end(size_t node) const { return edges_.data() + first_[node + 1]; }

 private:
  std::vector<size_t> first_;
  std::vector<Graph::Edge> edges_;
};

// Marks the nodes that no walk from a source ends in: those on cycles and those after them.
std::vector<bool> never_free(size_t nodes, const std::vector<Graph::Edge>& edges) {
  const Adjacency out(nodes, edges);
  std::vector<size_t> before(nodes, 0);
  for (const auto& edge : edges) ++before[edge.to];
  std::vector<size_t> free;
  for (size_t i = 0; i < nodes; ++i) {
    if (before[i] == 0) free.push_back(i);
  }
  std::vector<bool> left(nodes, true);
  while (!free.empty()) {
    const size_t node = free.back();
    free.pop_back();
    left[node] = false;
    for (const auto* edge = out.begin(node); edge != out.end(node); ++edge) {
      if (--before[edge->to] == 0) free.push_back(edge->to);
    }
  }
  return left;
}

std::vector<Graph::Edge> cycle_through(size_t start, size_t nodes, const Adjacency& out) {
  std::vector<const Graph::Edge*> reached_by(nodes, nullptr);
  std::deque<size_t> todo = {start};
  while (!todo.empty() && reached_by[start] == nullptr) {
    const size_t node = todo.front();
    todo.pop_front();
    for (const auto* edge = out.begin(node); edge != out.end(node); ++edge) {
      if (reached_by[edge->to] != nullptr) continue;
      reached_by[edge->to] = edge;
      todo.push_back(edge->to);
    }
  }
  std::vector<Graph::Edge> cycle;
  if (reached_by[start] == nullptr) return cycle;
  size_t node = start;
  do {
    cycle.push_back(*reached_by[node]);
    node = reached_by[node]->from;
  } while (node != start);
  std::reverse(cycle.begin(), cycle.end());
  return cycle;
}

}  // namespace

std::vector<Graph::Edge> Graph::shortest_cycle() const {
  const std::vector<bool> behind = never_free(nodes_, edges_);
  if (std::find(behind.begin(), behind.end(), true) == behind.end()) return {};

  std::vector<Edge> reversed;  // the same from the other side leaves only what is on or between cycles
  for (const Edge& edge : edges_) reversed.push_back({edge.to, edge.from, edge.label});
  const std::vector<bool> ahead = never_free(nodes_, reversed);
  std::vector<Edge> core;
  for (const Edge& edge : edges_) {
    if (behind[edge.from] && ahead[edge.from] && behind[edge.to] && ahead[edge.to]) core.push_back(edge);
  }
  const Adjacency out(nodes_, core);
  std::vector<Edge> shortest;
  size_t starts = 0;
  for (size_t node = 0; node < nodes_ && starts < kStartsMax; ++node) {
    if (!behind[node] || !ahead[node]) continue;
    ++starts;
    std::vector<Edge> cycle = cycle_through(node, nodes_, out);
    if (!cycle.empty() && (shortest.empty() || cycle.size() < shortest.size())) shortest = std::move(cycle);
  }
  return shortest;
}

}  // namespace bonsai::testing
