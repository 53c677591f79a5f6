// Calibration: how far answers over moved text are off, measured for one model and KV format by
// `refrain calibrate` and kept in a small JSON file beside the name of what it was measured on. The
// server reads it at start; without one, approximate reuse is refused. Main thread.
//
//   {"format": "refrain-calibration/2", "subject": "8f3a...", "model": "...", "numerics": "...",
//    "nats_per_exposure": {"edited": {"moved": 0.14, ...}, "recombined": {...}},
//    "margin_variance_per_nat": 4.1, "fitted_cases": 16, "held_back": {"cases": 8, "kl_mean":
//    0.031, "estimate_mean": 0.036, ...}}
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "base/hash.h"
#include "base/result.h"
#include "cli/files.h"
#include "cli/reuse_bench.h"
#include "model/reuse_gate.h"

namespace refrain::cli {

// How well the gate does on cases that it was not fitted to, over all rungs of each.
struct HeldBack {
  std::uint32_t cases = 0;
  double kl_mean = 0;        // nats
  double estimate_mean = 0;  // nats
  double kept = 0;           // share of estimates that the error stays below
  // Rows whose likeliest token is another one than in a cold run, as a share, and as estimated.
  double changed = 0;
  double changed_estimate = 0;
};

struct Calibration {
  model::ReuseGate::Slopes slopes;
  double margin_variance = 0;  // squared logits per nat
  std::uint32_t fitted_cases = 0;
  HeldBack held_back;

  model::ReuseGate gate() const { return model::ReuseGate(slopes, margin_variance); }
};

// What it was measured on.
struct CalibrationSubject {
  Hash128 key{};  // Compute::cache_root: model file, rope, KV format, numerics
  std::string model;
  std::string numerics;
};

CalibrationSubject calibration_subject(const Compute& compute);

// Every third case of a kind is held back. kInvalidArgument: fewer than three of a kind, or nothing
// in them that could be moved.
Result<Calibration> calibrate(std::span<const ReuseResult> results);

// --calibration, or KEY.json in ${XDG_DATA_HOME:-~/.local/share}/refrain/calibration.
Result<std::string> calibration_path(const std::string& option, const Environment& environment,
                                     const Hash128& key);

// Nothing if there is no such file. kDataLoss: it is not a calibration; kInvalidArgument: it is
// that of something else.
Result<std::optional<Calibration>> load_calibration(const std::string& path,
                                                    const CalibrationSubject& subject);
// That of --calibration, which must be there then, or of the data folder.
Result<std::optional<Calibration>> find_calibration(const Settings& settings,
                                                    const Compute& compute);
// Makes the folder; another process never sees half a file. kUnavailable.
Result<void> save_calibration(const std::string& path, const CalibrationSubject& subject,
                              const Calibration& calibration);

}  // namespace refrain::cli
