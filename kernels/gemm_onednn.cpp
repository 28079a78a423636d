// Matrix product by oneDNN's matmul primitive (https://uxlfoundation.github.io/oneDNN/dev_guide_matmul.html).
#include "base/region.hpp"
#include "kernels/gemm.hpp"
#include "kernels/support_onednn.hpp"

namespace petaflow {
namespace {

using dnnl::memory;

using onednn::Call;
using onednn::engine;
using onednn::guarded;
using onednn::stream;
using onednn::ThreadScope;

memory::desc matrix(std::int64_t rows, std::int64_t columns, bool transposed, std::int64_t distance) {
  return {{rows, columns}, memory::data_type::f32, transposed ? memory::dims{1, distance} : memory::dims{distance, 1}};
}

class OnednnGemm final : public GemmKernel {
 public:
  explicit OnednnGemm(const GemmDesc& desc) {
    const ThreadScope threads(desc.threads);
    dnnl::primitive_attr attributes;
    attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
    if (desc.beta != 0) {
      dnnl::post_ops sum;
      sum.append_sum(desc.beta);
      attributes.set_post_ops(sum);
    }
    const dnnl::matmul::primitive_desc plan(engine(), matrix(desc.m, desc.k, desc.transpose_a, desc.lda),
                                            matrix(desc.k, desc.n, desc.transpose_b, desc.ldb),
                                            matrix(desc.m, desc.n, false, desc.ldc), attributes);
    multiply_ = Call(dnnl::matmul(plan), desc.threads,
                     {{DNNL_ARG_SRC, plan.src_desc()},
                      {DNNL_ARG_WEIGHTS, plan.weights_desc()},
                      {DNNL_ARG_DST, plan.dst_desc()},
                      {DNNL_ARG_SCRATCHPAD, plan.scratchpad_desc()}});
    scratch_ = plan.scratchpad_desc().get_size();
    detail_ = fmt::format("onednn {}", plan.impl_info_str());
  }

  void run(const Context&, const float* a, const float* b, float* c, std::byte* scratch) const override {
    const Region region("petaflow::gemm[onednn]"_label);
    guarded(detail_, [&] {
      multiply_({a, b, c, scratch});
      stream().wait();
    });
  }

  std::size_t scratch_bytes() const override { return scratch_; }
  std::string detail() const override { return detail_; }

 private:
  Call multiply_;
  std::size_t scratch_ = 0;
  std::string detail_;
};

std::unique_ptr<GemmKernel> make(const GemmDesc& desc) {
  return guarded(fmt::format("product of {} x {} x {}", desc.m, desc.k, desc.n),
                 [&] { return std::make_unique<OnednnGemm>(desc); });
}

}  // namespace

extern const GemmImpl kGemmOnednn;
const GemmImpl kGemmOnednn = {"onednn", [](const GemmDesc&) { return std::string(); }, make};

}  // namespace petaflow
