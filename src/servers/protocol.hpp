// What workers and parameter servers say to each other: plain structs, sent as they are between processes of one
// program.
//
// Workers form groups.  A group works through one step at a time, its ticket, sums the gradient among its members, and
// sends every layer's sum to the server that keeps the layer; the weights come back.  Source: Kurth et al., SC17,
// section VI-C (one server per layer); intel/caffe, async_param_server.cpp, which that work ran with.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <type_traits>

#include "base/error.hpp"
#include "comm/transport.hpp"

namespace petaflow {

/// Who is who: ranks [0, workers) in groups of neighbours, then the servers, where these are not inside workers.
struct ServerLayout {
  int workers = 1, groups = 1, servers = 0;
  bool cut_layers = false;  // into parts, each of which is a layer to all below: layers_of()
  bool colocated = false;   // servers are inside workers, at most one in each

  int ranks() const { return colocated ? workers : workers + servers; }
  int members() const { return workers / groups; }
  int group_of(int worker) const { return worker / members(); }
  /// The server that keeps a layer; layers are counted in the order of the parameters.
  int server_of(std::size_t layer) const { return static_cast<int>(layer % static_cast<std::size_t>(servers)); }
  /// Colocated ones are spread evenly over the groups, as each makes its group slower.  The last members come first:
  /// the first one leads its group and owns the most layers.
  int rank_of(int server) const {
    if (!colocated) return workers + server;
    return (server % groups + 1) * members() - 1 - server / groups;
  }
  /// The server of a rank; none: it is a worker alone.
  std::optional<int> server_at(int rank) const {
    const int server = colocated ? (members() - 1 - rank % members()) * groups + group_of(rank) : rank - workers;
    return 0 <= server && server < servers ? std::optional(server) : std::nullopt;
  }
  bool works(int rank) const { return rank < workers; }
  /// The member of each group that sends a layer's gradient and spreads its weights.
  int owner_of(std::size_t layer) const { return static_cast<int>(layer % static_cast<std::size_t>(members())); }
  static constexpr int kCoordinator = 0;  // the server that deals out the steps
};

/// When gradients of several groups change a layer.
enum class UpdateOrder : std::uint8_t {
  kArrival,  // first come, first served
  kTicket    // by ticket: the same bits in every run
};

struct ServingOrder {
  UpdateOrder order = UpdateOrder::kArrival;
  /// By arrival: a gradient waits where applying it would let the weights that another one is of grow older than so
  /// many updates, at least groups - 1 (Ho et al., "More Effective Distributed ML via a Stale Synchronous Parallel
  /// Parameter Server", NIPS 2013); kUnbounded: none waits.
  std::int64_t max_staleness = kUnbounded;
  static constexpr std::int64_t kUnbounded = 0;
};

// Tags of messages: worker 0's to all servers; groups' reports, and the coordinator's answers.
inline constexpr Tag kControlTag{0}, kReportTag{1}, kAnswerTag{2}, kFirstLayerTag{3};

/// Of all about a layer, counted in the order of the parameters: headers, and the values behind them.  Answers have
/// tags of their own: a rank may be worker and server, and send both to itself.
inline Tag layer_tag(std::size_t layer) { return kFirstLayerTag + 2 * static_cast<int>(layer); }
inline Tag layer_answer_tag(std::size_t layer) { return layer_tag(layer) + 1; }

/// What comes before the values of a layer, both ways.
struct LayerHeader {
  enum class Kind : std::int32_t {
    kPush,        // a gradient; its weights come back
    kWeights,     // the weights come back
    kState,       // a state of the optimizer comes back
    kSetWeights,  // weights after `version` pushes
    kSetState,    // a state of the optimizer
    kTuner,       // the numbers of the optimizer's tuner come back
    kSetTuner,    // these numbers
    kIdle,        // the group has no ticket and sends no gradient before all settle
    kRelease,     // a group failed: gradients change nothing any more, so that none waits for another
    kEnd          // nothing follows, no answer
  };
  Kind kind = Kind::kPush;
  std::int32_t state = 0;      // kState, kSetState: number of it
  std::int64_t ticket = 0;     // kPush
  std::int64_t version = 0;    // pushes that the weights have seen
  std::int64_t staleness = 0;  // answer to kPush: those of other groups since the weights that the gradient is of
  std::int64_t queue = 0;      // answer to kPush: gradients that were at the server when it was applied, itself too
  float learning_rate = 0;     // kPush
  std::int32_t numbers = 0;    // kTuner, kSetTuner: so many
};

/// Whether values of the layer follow, from a worker and from a server.
inline bool brings_values(LayerHeader::Kind kind) {
  using Kind = LayerHeader::Kind;
  return kind == Kind::kPush || kind == Kind::kSetWeights || kind == Kind::kSetState || kind == Kind::kSetTuner;
}
inline bool takes_values(LayerHeader::Kind kind) {
  using Kind = LayerHeader::Kind;
  return kind == Kind::kPush || kind == Kind::kWeights || kind == Kind::kState || kind == Kind::kTuner;
}
/// How many.
/// @param elements  of the layer
inline std::size_t values_with(const LayerHeader& header, std::size_t elements) {
  using Kind = LayerHeader::Kind;
  const bool of_tuner = header.kind == Kind::kTuner || header.kind == Kind::kSetTuner;
  return of_tuner ? static_cast<std::size_t>(header.numbers) : elements;
}

/// A struct as a message.
template <class T>
  requires std::is_trivially_copyable_v<T>
std::span<std::byte> bytes_of(T& value) {
  return std::as_writable_bytes(std::span(&value, 1));
}

/// A text of limited length; what is longer is cut.
struct ShortText {
  std::array<char, 1024> bytes{};

  void set(std::string_view text) { bytes[text.copy(bytes.data(), bytes.size() - 1)] = '\0'; }
  std::string_view get() const { return bytes.data(); }
};

/// What a group tells the coordinator; each report but the last has one answer.
struct TicketReport {
  std::int64_t from = 0, until = 0;  // steps [from, until) are dealt out before all groups settle
  std::int64_t done = -1;            // ticket that the group has worked through; none: it asks for another one
  double loss = 0;                   // of it
  std::int32_t waits = 0;            // the group has no ticket, and waits until all settle
  std::int32_t stop = 0;             // StopRequest
  std::int32_t failed = 0;           // 1 + ErrorKind; no answer then
  std::int32_t last = 0;             // nothing follows, no answer
  ShortText text = {};               // of the failure
};

struct TicketAnswer {
  std::int64_t ticket = -1;  // none: there is no other one before all settle, for which a group waits by a report
  std::int32_t settled = 0;  // every ticket before `until` is done
  std::int64_t until = 0;    // settled: less than was asked for where a stop was requested
  std::int32_t stop = 0;     // settled: StopRequest
  std::int32_t failed = 0;   // 1 + ErrorKind
  std::int64_t losses = 0;   // so many follow: of the next tickets that are done, in their order
  ShortText text = {};       // of the failure
};

/// What worker 0 tells a server: who the workers and the parameters are from now on, or that all is over.
struct Control {
  std::int64_t parameters = -1;  // so many ServedParameter follow; negative: the end
  std::int32_t exit_code = 0;    // of the end
  std::int32_t groups = 1;
  double momentum = kFromOptions;  // of the updates
  static constexpr double kFromOptions = -1;
};

/// A parameter as far as an optimizer needs to know it.
struct ServedParameter {
  std::int64_t layer = 0, elements = 0;
  double running_momentum = 0;  // as in ParamSpec
  std::int32_t decays = 0;
};

}  // namespace petaflow
