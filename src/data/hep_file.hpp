// One file of collision events in any of the layouts that hep.hpp names: where its pixels are, and what it says about
// each event.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "data/augment.hpp"
#include "io/hdf5.hpp"

namespace petaflow {

/// How the files are laid out.
struct HepFileOptions {
  std::string format = "auto";  // "all_events", "sc17", "class_files"; "auto" looks into the first file
  std::int64_t channels = 0;    // taken from the front; 0: all that are there
  std::vector<std::string> channel_names = {"hist", "histEM", "histtrack"};  // all_events: one data set per channel
  std::string suffix = {};                                                   // all_events: "_val" reads images_val, ...
  std::string dataset = {};                                                  // class_files: "gTowerEt"
  std::string signal = {}, background = {};                                  // class_files: patterns of file names
};

/// What a file says about one event.
struct HepEvent {
  std::int32_t label = -1;  // 1 signal, 0 background, -1 not said
  double weight = 1;        // physics weight: cross section x luminosity / generated; 1 where the file has none
  double loss_weight = 1;   // normweight or normalized_weight; the physics weight where the file has none
  bool pass_sr = false, pass_sr4j = false, pass_sr5j = false;  // the cut selection; sc17 files only know the first
  std::int32_t file = 0;                                       // position in the list of files
  std::int64_t index = 0;                                      // in the file
};

struct HepFile {
  std::string path, format;
  std::vector<Hdf5Dataset> planes;  // one per channel, or one that holds all of them
  std::int64_t channels = 1;        // used of `stored_channels`
  std::int64_t stored_channels = 1, height = 0, width = 0, count = 0;
  bool channels_last = false;  // (N, H, W, C)
  bool has_labels = false, has_weights = false, has_norm_weights = false, has_selection = false;
  ImageAxis phi_axis = ImageAxis::kW;
  std::int64_t first = 0;  // number of its first event in the whole set

  /// Floats per event as read: all stored channels of the planes.
  std::int64_t raw_elements() const { return stored_channels * height * width; }
  /// Events [from, from + n) as stored: planes one after the other, each (n, H, W), (n, C, H, W) or (n, H, W, C).
  void read_raw(std::int64_t from, std::int64_t n, std::span<float> raw) const;
  /// Index of a pixel's first column in what read_raw gave, and the distance to the next column.
  std::int64_t raw_index(std::int64_t n, std::int64_t event, std::int64_t channel, std::int64_t row) const;
  std::int64_t raw_step() const { return channels_last ? stored_channels : 1; }
};

/// Opens and validates a file; appends its events.  `labels_needed`: a file without labels is an error.  Throws
/// Error(kUser).
HepFile open_hep_file(const std::string& path, const HepFileOptions& options, bool labels_needed,
                      std::vector<HepEvent>& events);

}  // namespace petaflow
