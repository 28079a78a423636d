#include "hep/hep_app.hpp"

#include "data/bytes.hpp"
#include "hep/generate.hpp"
#include "hep/judgement.hpp"
#include "train/agree.hpp"

namespace petaflow::hep {
namespace {

const HepData& as_hep(const Dataset& data) { return dynamic_cast<const HepData&>(data); }

// Where phi runs in the images, as data.phi_axis has it.
std::string phi_axis(const HepData& data) { return data.phi_axis() == ImageAxis::kW ? "columns" : "rows"; }

}  // namespace

std::string HepApplication::description() const {
  return "Tells collision events with new physics from background by their calorimeter images (Kurth et al., SC17)";
}

Shape HepApplication::sample_shape() const {
  const DataKeys& data = options_.data;
  return {1, data.channels * std::ssize(data.options.transforms), 1, data.height, data.width};
}

std::unique_ptr<Loss> HepApplication::loss() const { return std::make_unique<SoftmaxLoss>(); }

std::string HepApplication::scan(const std::vector<std::string>& files, DataRole role) const {
  HepIndex index = scan_hep(data_options(options_.data, role), files);
  return to_bytes(index);
}

std::unique_ptr<Dataset> HepApplication::open(const std::string& found, const std::string& what, DataRole role) const {
  auto data = std::make_unique<HepData>(data_options(options_.data, role), from_bytes<HepIndex>(found));
  const std::string axis = phi_axis(*data), &expected = options_.data.phi_axis;
  if (!expected.empty() && axis != expected) {
    user_error("{}: phi runs along the {} of the images in {}, but along the {} in the training set", what, axis,
               data->files().front(), expected);
  }
  if (options_.model.periodic_width && axis != "columns") {
    user_error("model.periodic_width closes the images in their width, but phi runs along the {} in {}", axis,
               data->files().front());
  }
  return data;
}

void HepApplication::keep(const Dataset& train) {
  const HepData& data = as_hep(train);
  DataKeys& keys = options_.data;
  keys.phi_axis = phi_axis(data);
  if (keys.options.scale == "max") keys.maxima.assign(data.maxima().begin(), data.maxima().end());
}

std::function<void(std::span<std::byte>, RandomSequence&)> HepApplication::augmentation(const Dataset& train) const {
  AugmentOptions augment = options_.augment;
  if (!augment.roll_phi && !augment.flip_phi && !augment.mirror_eta && augment.energy_jitter == 0) return {};
  const HepData& data = as_hep(train);
  augment.phi = data.phi_axis();
  if (augment.roll_phi && !data.phi_is_whole()) {
    user_error("augment.roll_phi needs images of the whole circle in phi, but data.crop cuts it");
  }
  return DetectorAugment(data.sample_dims(), augment);
}

std::vector<Predictor::View> HepApplication::views(const Dataset& data) const {
  if (!options_.evaluate.mirrors) return {};
  return mirrored_views(data.sample_dims());
}

std::string HepApplication::curves(const Dataset& data, const Predictions& predictions) const {
  const HepData& hep = as_hep(data);
  const HepDataOptions& options = options_.data.options;
  const ImageScale scale{options.transforms.front(), options.units.front(), static_cast<double>(hep.maxima().front())};
  return report_curves(hep, scored(hep, predictions, options_.evaluate.weighted), scale).dump();
}

Evaluation HepApplication::evaluate(const Dataset& data, const Predictions& predictions,
                                    const std::vector<Estimates>& /*others*/, Depth depth) const {
  const HepData& hep = as_hep(data);
  return judge(hep, scored(hep, predictions, options_.evaluate.weighted), options_.evaluate, depth);
}

PredictionRows HepApplication::rows(const Dataset& data, const Predictions& predictions) const {
  return {prediction_columns(as_hep(data), predictions), {}};
}

void HepApplication::generate(const CommonOptions& options, Communicator& comm, bool overwrite) const {
  agree(comm, [&] {
    if (comm.rank() == 0) write_sets(options.data, options_, overwrite);
  });
}

}  // namespace petaflow::hep
