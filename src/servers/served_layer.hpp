// A layer's parameters on their server: a state machine, without messages or clocks.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "servers/layer_store.hpp"
#include "servers/protocol.hpp"

namespace petaflow {

class ServedLayer {
 public:
  ServedLayer(std::unique_ptr<LayerStore> store, int groups, const ServingOrder& order);

  const LayerStore& store() const { return *store_; }
  /// Takes a message of a group, which has sent no other one that is not answered.  Gives the groups whose messages are
  /// answers now: this one, none, or those that waited for it too; valid until the next call.
  /// Throws a failure where a group sends before its last message is answered, or, by ticket, a ticket that was applied
  /// already.
  /// @param values  in host memory, as many as values_with() says; these and the header stay until they are an answer
  std::span<const int> take(int group, LayerHeader& header, float* values);

 private:
  struct Message {
    LayerHeader* header = nullptr;
    float* values = nullptr;
  };
  bool is_due(int group) const;
  void apply_what_is_due();
  void apply(int group);
  void answer(int group);

  ServingOrder order_;
  std::unique_ptr<LayerStore> store_;
  std::int64_t version_ = 0;  // pushes so far
  bool released_ = false;
  std::vector<Message> waiting_;    // by group
  std::vector<std::int64_t> seen_;  // by group: version that it got last
  std::vector<char> idle_;          // by group: it sends no gradient before all settle
  std::vector<int> arrived_;        // groups whose gradients wait, in the order in which they came
  std::vector<int> answered_;
};

}  // namespace petaflow
