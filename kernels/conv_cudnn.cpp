// Convolution by cuDNN's engines (cuDNN 9, "Graph API"), on channels-last operands.
#include <algorithm>
#include <mutex>

#include "base/error.hpp"
#include "base/scratch.hpp"
#include "kernels/describe_cudnn.hpp"
#include "kernels/execution_cudnn.hpp"
#include "kernels/launch.hpp"
#include "kernels/plans_cudnn.hpp"

namespace petaflow {
namespace cudnn {
namespace {

/// Moves between PyTorch's order (out, in / groups, taps) and cuDNN's (out, taps, in / groups); runs over the elements
/// of the former.
struct Order {
  std::int64_t depth, taps;

  explicit Order(const ConvDesc& desc)
      : depth(desc.in_channels / desc.geometry.groups), taps(desc.geometry.kernel.volume()) {}

  KOKKOS_INLINE_FUNCTION std::int64_t operator()(std::int64_t element) const {
    const std::int64_t tap = element % taps, channel = element / taps % depth, out = element / taps / depth;
    return (out * taps + tap) * depth + channel;
  }
};
template <class T>
struct Pack {
  Order order;
  const float* from;
  T* to;
  KOKKOS_INLINE_FUNCTION void operator()(std::int64_t i) const { to[order(i)] = static_cast<T>(from[i]); }
};
struct Unpack {
  Order order;
  const float* from;
  float* to;
  KOKKOS_INLINE_FUNCTION void operator()(std::int64_t i) const { to[i] += from[order(i)]; }
};
struct AddPart {
  const float* part;
  float* sum;
  KOKKOS_INLINE_FUNCTION void operator()(std::int64_t i) const { sum[i] += part[i]; }
};

// `why_not` asks for a plan, `make` takes it, and layers alike share it.
struct Plans {
  std::mutex mutex;
  std::string device, why_none;  // the properties of the device
  std::vector<std::pair<Convolution, std::unique_ptr<const Plan>>> made;
};
Plans& all_plans() {
  static Plans plans;
  return plans;
}

class Kernel final : public ConvKernel {
 public:
  Kernel(Pass pass, std::span<const ConvDesc> tiles) : pass_(pass), desc_(tiles.front()) {
    std::int64_t workspace = 0;
    for (const ConvDesc& tile : tiles) {
      const Plan& plan = plan_of(pass, tile);
      executions_.emplace_back(plan);
      workspace = std::max(workspace, plan.workspace);
    }
    detail_ = fmt::format("cudnn {}", plan_of(pass, desc_).engine);
    if (pass == Pass::kBackwardWeights) part_ = layout_.add<float>(desc_.weight_elements());
    workspace_ = layout_.add<std::byte>(workspace + kAlignment);
  }

  std::size_t packed_bytes() const override {
    if (pass_ == Pass::kBackwardWeights) return 0;
    return static_cast<std::size_t>(desc_.weight_elements()) * size_of(desc_.type);
  }

  void pack(const Context& context, const float* weights, std::byte* packed) const override {
    desc_.type == DType::kF32 ? pack_as<float>(context, weights, packed) : pack_as<Bf16>(context, weights, packed);
  }

  void run(const Context& context, std::size_t tile, const ConvArgs& args) override {
    const bool sums = pass_ == Pass::kBackwardWeights;
    const auto workspace = reinterpret_cast<std::uintptr_t>(args.scratch + workspace_);
    auto* const part = reinterpret_cast<float*>(args.scratch + part_);
    executions_[tile].run(context.space.cuda_stream(), args.x,
                          sums ? static_cast<void*>(part) : const_cast<std::byte*>(args.weights), args.y,
                          reinterpret_cast<void*>((workspace + kAlignment - 1) / kAlignment * kAlignment));
    if (sums) launch(context, "petaflow::conv::add_part[cudnn]"_label, gradient_elements(), AddPart{part, args.sum});
  }

  std::size_t scratch_bytes() const override { return layout_.bytes(); }
  std::int64_t gradient_elements() const override {
    return pass_ == Pass::kBackwardWeights ? desc_.weight_elements() : 0;
  }

  void unpack_gradient(const Context& context, const float* sum, float* dw) override {
    launch(context, "petaflow::conv::unpack_gradient[cudnn]"_label, gradient_elements(), Unpack{Order(desc_), sum, dw});
  }

  std::string detail() const override { return detail_; }

 private:
  static constexpr std::uintptr_t kAlignment = 256;  // of workspaces

  template <class T>
  void pack_as(const Context& context, const float* weights, std::byte* packed) const {
    launch(context, "petaflow::conv::pack[cudnn]"_label, desc_.weight_elements(),
           Pack<T>{Order(desc_), weights, reinterpret_cast<T*>(packed)});
  }

  Pass pass_;
  ConvDesc desc_;  // of the first tile: weights and type are those of all
  std::vector<Execution> executions_;
  ScratchLayout layout_;
  std::size_t part_ = 0, workspace_ = 0;  // in the scratch: a tile's gradient, what cuDNN asks for
  std::string detail_;
};

std::string why_not(Pass pass, std::span<const ConvDesc> tiles) {
  if (std::ranges::any_of(tiles, begins_unaligned)) return "a slice whose pixels begin at no multiples of 16 bytes";
  for (const ConvDesc& tile : tiles) {
    if (const Plan& plan = plan_of(pass, tile); !plan.refusal.empty()) return plan.refusal;
  }
  return {};
}

std::unique_ptr<ConvKernel> make(Pass pass, std::span<const ConvDesc> tiles) {
  return std::make_unique<Kernel>(pass, tiles);
}

}  // namespace

void plan_for(const Card& card) {
  Plans& plans = all_plans();
  const std::lock_guard lock(plans.mutex);
  PETAFLOW_REQUIRE(plans.made.empty(), "plans were made for another GPU");
  need_driver();
  plans.device = properties(card);
}

const Plan& plan_of(Pass pass, const ConvDesc& desc) {
  Plans& plans = all_plans();
  const std::lock_guard lock(plans.mutex);
  if (plans.device.empty() && plans.why_none.empty()) plans.device = device_properties(plans.why_none);
  const Convolution convolution = describe(pass, desc);
  const auto found = std::ranges::find_if(plans.made, [&](const auto& entry) { return entry.first == convolution; });
  if (found != plans.made.end()) return *found->second;
  auto plan =
      plans.device.empty() ? Plan{.refusal = "no device: " + plans.why_none} : make_plan(convolution, plans.device);
  return *plans.made.emplace_back(convolution, std::make_unique<const Plan>(std::move(plan))).second;
}

}  // namespace cudnn

extern const ConvImpl kConvCudnn;
const ConvImpl kConvCudnn = {"cudnn", cudnn::why_not, cudnn::make};

}  // namespace petaflow
