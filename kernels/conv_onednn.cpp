// Convolution by oneDNN's convolution primitives (oneDNN developer guide, "Convolution").  Operands stay channels-last;
// backward weights may reorder its tile into oneDNN's own blocked format, where the library is faster there.
#include <algorithm>
#include <optional>
#include <type_traits>

#include "kernels/conv.hpp"
#include "kernels/conv_describe_onednn.hpp"
#include "kernels/conv_pieces.hpp"
#include "kernels/launch.hpp"
#include "kernels/pack_points_onednn.hpp"
#include "kernels/support_onednn.hpp"

namespace petaflow {

namespace onednn {
namespace {

// Rows cut out of several images: some kernels of oneDNN 3.7 take the samples for neighbours whatever the strides say.
bool cuts_several_samples(const ConvDesc& desc) {
  const auto cut = [&](const Extent& e, const Strides& s) { return s.n != (is_deep(desc) ? e.d * s.d : e.h * s.h); };
  return desc.n > 1 && (cut(desc.in, desc.x_strides) || cut(desc.out, desc.y_strides));
}

// oneDNN 3.2 and 3.7 give wrong gradients in bf16 for some 3-D tiles: of few rows under kernels of 1 x 4 x 2 and 5 x 5
// x 5; of two planes under three taps, where some stay unwritten.  All with a padding above 1 are refused, and kernels
// deeper than their input.
bool sums_wrongly_in_bf16(const ConvDesc& desc) {
  const ConvGeometry& g = desc.geometry;
  const auto wide = [](const Extent& pad) { return std::max({pad.d, pad.h, pad.w}) > 1; };
  return desc.type == DType::kBf16 && is_deep(desc) && (wide(g.pad_begin) || wide(g.pad_end) || desc.in.d < g.kernel.d);
}

// Moves from one format to the other.
Call make_reorder(const memory::desc& from, const memory::desc& to, int threads) {
  return {dnnl::reorder({engine(), from, engine(), to}), threads, {{DNNL_ARG_FROM, from}, {DNNL_ARG_TO, to}}};
}

// Forward and backward data: one primitive per tile shape, one packed copy of the weights per format, mostly one.
// Scratch holds x with its planes as neighbours, where they are not, and the primitive's scratchpad.
template <class Primitive>
class DirectKernel final : public ConvKernel {
 public:
  DirectKernel(Pass pass, std::span<const ConvDesc> tiles) {
    const auto descriptors = describe<Primitive>(pass, tiles, false).tiles;
    for (const auto& pd : descriptors) {
      const memory::desc format = weights_of(pd);
      if (find(format) < packed_.size()) continue;
      Packed& copy = packed_.emplace_back(Packed{format, packed_bytes_, PointPacking::of(tiles[0], pass, format)});
      if (!copy.points)
        copy.reorder = make_reorder(plain_weights(tiles[0], memory::data_type::f32), format, omp_get_max_threads());
      packed_bytes_ += padded(format.get_size());
    }
    const ThreadScope threads(tiles[0].threads);
    for (std::size_t i = 0; i < tiles.size(); ++i) {
      const auto& pd = descriptors[i];
      const memory::desc format = weights_of(pd);
      const Formats f = formats(tiles[i], pass, false, &format);
      const memory::desc given = given_x(tiles[i], pass);
      const int team = tiles[i].threads;
      Shape shape;
      shape.packed = find(format);
      shape.convolve = Call(Primitive(pd), team,
                            {{kReadsX ? DNNL_ARG_SRC : DNNL_ARG_DIFF_SRC, f.x},
                             {DNNL_ARG_WEIGHTS, f.w},
                             {kReadsX ? DNNL_ARG_DST : DNNL_ARG_DIFF_DST, f.y},
                             {DNNL_ARG_SCRATCHPAD, pd.scratchpad_desc()}});
      if (f.x != given) {
        shape.reorder_x = kReadsX ? make_reorder(given, f.x, team) : make_reorder(f.x, given, team);
        shape.offset_scratchpad = padded(f.x.get_size());
      }
      scratch_ = std::max(scratch_, shape.offset_scratchpad + pd.scratchpad_desc().get_size());
      shapes_.push_back(std::move(shape));
    }
    detail_ = fmt::format("onednn {}", descriptors.front().impl_info_str());
  }

  std::size_t packed_bytes() const override { return packed_bytes_; }

  void pack(const Context& context, const float* weights, std::byte* packed) const override {
    for (const Packed& copy : packed_) {
      if (copy.points) {
        (*copy.points)(context, weights, packed + copy.offset);
      } else {
        copy.reorder({weights, packed + copy.offset});
      }
    }
    stream().wait();
  }

  void run(const Context&, std::size_t tile, const ConvArgs& args) override {
    guarded(detail_, [&] {
      const Shape& s = shapes_[tile];
      const void* x = s.reorder_x ? args.scratch : args.x;
      if (kReadsX && s.reorder_x) (*s.reorder_x)({args.x, x});
      s.convolve({x, args.weights + packed_[s.packed].offset, args.y, args.scratch + s.offset_scratchpad});
      if (!kReadsX && s.reorder_x) (*s.reorder_x)({x, args.x});
    });
  }

  std::size_t scratch_bytes() const override { return scratch_; }
  std::string detail() const override { return detail_; }

 private:
  static constexpr bool kReadsX = std::is_same_v<Primitive, Forward>;
  struct Shape {
    Call convolve;
    std::size_t packed = 0;  // index into packed_
    std::optional<Call> reorder_x;
    std::size_t offset_scratchpad = 0;
  };
  struct Packed {
    memory::desc format;
    std::size_t offset;  // in the packed weights, in bytes
    std::optional<PointPacking> points;
    Call reorder = {};  // where that is empty
  };

  std::size_t find(const memory::desc& format) const {
    return static_cast<std::size_t>(std::ranges::find(packed_, format, &Packed::format) - packed_.begin());
  }

  std::vector<Shape> shapes_;  // of tiles
  std::vector<Packed> packed_;
  std::size_t packed_bytes_ = 0;
  std::size_t scratch_ = 0;
  std::string detail_;
};

// Backward weights.  Scratch holds, in this order: a piece's gradient, x and y reordered (where they are), the
// primitive's scratchpad; in front of them the sum of the pieces where tiles have many.
class WeightsKernel final : public ConvKernel {
 public:
  WeightsKernel(std::span<const ConvDesc> whole, bool blocked) : pieces_(whole), threads_(whole.front().threads) {
    const std::vector<ConvDesc>& tiles = pieces_.shapes;
    const auto descriptors = describe<BackwardWeights>(Pass::kBackwardWeights, tiles, blocked).tiles;
    gradient_ = descriptors.front().diff_weights_desc();
    unpack_ = make_reorder(gradient_, plain_weights(tiles[0], memory::data_type::f32), omp_get_max_threads());
    const ThreadScope threads(threads_);
    for (std::size_t i = 0; i < tiles.size(); ++i) {
      const auto& pd = descriptors[i];
      const memory::desc x = given_x(tiles[i], Pass::kBackwardWeights), y = given_y(tiles[i], Pass::kBackwardWeights);
      const Formats used{pd.src_desc(), gradient_, pd.diff_dst_desc()};
      const int team = tiles[i].threads;
      Shape shape;
      shape.correlate = Call(BackwardWeights(pd), team,
                             {{DNNL_ARG_SRC, used.x},
                              {DNNL_ARG_DIFF_DST, used.y},
                              {DNNL_ARG_DIFF_WEIGHTS, used.w},
                              {DNNL_ARG_SCRATCHPAD, pd.scratchpad_desc()}});
      if (used.x != x) shape.reorder_x = make_reorder(x, used.x, team);
      if (used.y != y) shape.reorder_y = make_reorder(y, used.y, team);
      shape.offset_x = padded(used.w.get_size());
      shape.offset_y = shape.offset_x + (shape.reorder_x ? padded(used.x.get_size()) : 0);
      shape.offset_scratchpad = shape.offset_y + (shape.reorder_y ? padded(used.y.get_size()) : 0);
      scratch_ = std::max(scratch_, shape.offset_scratchpad + pd.scratchpad_desc().get_size());
      shapes_.push_back(std::move(shape));
    }
    if (std::ranges::any_of(pieces_.tiles, [](const auto& pieces) { return pieces.size() > kSumsInF32; }))
      exact_bytes_ = padded(static_cast<std::size_t>(gradient_elements()) * sizeof(double));
    detail_ = fmt::format("onednn {}{}", descriptors.front().impl_info_str(), blocked ? " blocked" : "");
  }

  void run(const Context& context, std::size_t tile, const ConvArgs& args) override {
    const auto& pieces = pieces_.tiles[tile];
    const std::size_t element = size_of(pieces_.shapes[0].type);
    ConvArgs own = args;
    own.scratch += exact_bytes_;
    const auto* part = reinterpret_cast<const float*>(own.scratch);
    auto* exact = reinterpret_cast<double*>(args.scratch);
    float* sum = args.sum;
    const auto add = [&](const auto& to_element) {
      launch(context, threads_, "petaflow::conv::add_part[onednn]"_label, gradient_elements(), to_element);
    };
    for (std::size_t i = 0; i < pieces.size(); ++i) {
      own.x = static_cast<std::byte*>(args.x) + static_cast<std::size_t>(pieces[i].x) * element;
      own.y = static_cast<std::byte*>(args.y) + static_cast<std::size_t>(pieces[i].y) * element;
      guarded(detail_, [&] { correlate(shapes_[pieces[i].shape], own); });
      if (pieces.size() <= kSumsInF32) {
        add([=](std::int64_t e) { sum[e] += part[e]; });
      } else if (i == 0) {
        add([=](std::int64_t e) { exact[e] = static_cast<double>(part[e]); });
      } else {
        add([=](std::int64_t e) { exact[e] += static_cast<double>(part[e]); });
      }
    }
    if (pieces.size() > kSumsInF32) add([=](std::int64_t e) { sum[e] += static_cast<float>(exact[e]); });
  }

  std::size_t scratch_bytes() const override { return exact_bytes_ + scratch_; }
  std::int64_t gradient_elements() const override {
    return static_cast<std::int64_t>(gradient_.get_size() / sizeof(float));
  }

  void unpack_gradient(const Context&, const float* sum, float* dw) override {
    unpack_({sum, dw});
    stream().wait();
  }

  std::string detail() const override { return detail_; }

 private:
  static constexpr std::size_t kSumsInF32 = 64;  // as many pieces of a tile are added in f32

  struct Shape {
    Call correlate;
    std::optional<Call> reorder_x, reorder_y;
    std::size_t offset_x = 0, offset_y = 0, offset_scratchpad = 0;  // in the scratch of a call
  };

  static void correlate(const Shape& s, const ConvArgs& args) {
    const void* x = take(s.reorder_x, args.x, args.scratch + s.offset_x);
    const void* y = take(s.reorder_y, args.y, args.scratch + s.offset_y);
    s.correlate({x, y, args.scratch, args.scratch + s.offset_scratchpad});
  }

  static const void* take(const std::optional<Call>& reorder, const void* given, std::byte* room) {
    if (!reorder) return given;
    (*reorder)({given, room});
    return room;
  }

  WeightPieces pieces_;
  int threads_;
  memory::desc gradient_;
  Call unpack_;
  std::vector<Shape> shapes_;  // of pieces
  std::size_t exact_bytes_ = 0, scratch_ = 0;
  std::string detail_;
};

template <class Primitive>
std::string try_tiles(Pass pass, std::span<const ConvDesc> tiles, bool blocked) {
  if (std::ranges::any_of(tiles, cuts_several_samples)) return "oneDNN: tiles with parts of several samples";
  if (pass == Pass::kBackwardWeights && std::ranges::any_of(tiles, sums_wrongly_in_bf16)) {
    return "oneDNN: wrong sums for 3-D kernels in bf16 with a padding above 1 or deeper than their input";
  }
  return describe<Primitive>(pass, tiles, blocked).refusal;
}

std::string why_not_nhwc(Pass pass, std::span<const ConvDesc> tiles) {
  if (pass == Pass::kForward) return try_tiles<Forward>(pass, tiles, false);
  if (pass == Pass::kBackwardData) return try_tiles<BackwardData>(pass, tiles, false);
  return try_tiles<BackwardWeights>(pass, WeightPieces(tiles).shapes, false);
}

std::string why_not_blocked(Pass pass, std::span<const ConvDesc> tiles) {
  if (pass != Pass::kBackwardWeights) return "for backward weights only";
  return try_tiles<BackwardWeights>(pass, WeightPieces(tiles).shapes, true);
}

std::unique_ptr<ConvKernel> make_nhwc(Pass pass, std::span<const ConvDesc> tiles) {
  return guarded(name_of(pass), [&]() -> std::unique_ptr<ConvKernel> {
    if (pass == Pass::kForward) return std::make_unique<DirectKernel<Forward>>(pass, tiles);
    if (pass == Pass::kBackwardData) return std::make_unique<DirectKernel<BackwardData>>(pass, tiles);
    return std::make_unique<WeightsKernel>(tiles, false);
  });
}

std::unique_ptr<ConvKernel> make_blocked(Pass pass, std::span<const ConvDesc> tiles) {
  return guarded(name_of(pass), [&] { return std::make_unique<WeightsKernel>(tiles, true); });
}

}  // namespace
}  // namespace onednn

bool onednn_uses_amx() {
  // Later instruction sets include the bits of earlier ones.
  const auto bits = [](dnnl::cpu_isa isa) { return static_cast<unsigned>(isa); };
  const unsigned amx = bits(dnnl::cpu_isa::avx512_core_amx);
  return (bits(dnnl::get_effective_cpu_isa()) & amx) == amx;
}

extern const ConvImpl kConvOnednn;
extern const ConvImpl kConvOnednnBlocked;
const ConvImpl kConvOnednn{"onednn", onednn::why_not_nhwc, onednn::make_nhwc};
const ConvImpl kConvOnednnBlocked{"onednn_blocked", onednn::why_not_blocked, onednn::make_blocked};

}  // namespace petaflow
