// SPDX-License-Identifier: Apache-2.0
#include "bench/driver/engine_apart.h"

#include <cstring>
#include <nlohmann/json.hpp>
#include <type_traits>

#include "bench/driver/apart.h"
#include "bench/engines/pool_place.h"
#include "bench/results/run_codec.h"

namespace bonsai::bench {
namespace {

using Json = nlohmann::json;

// The first byte of a message, which states the listener's function to call.
constexpr char kPhase = 'p', kProgress = 'o', kResult = 'r', kNote = 'n', kLeftOut = 'l';
static_assert(std::is_trivially_copyable_v<PhaseProgress>);

std::string message(char call, const Json& arguments) {
  std::string bytes(1, call);
  Json::to_cbor(arguments, bytes);
  return bytes;
}

RunListener sender(const Send& send) {
  return {.on_phase =
              [&send](const std::string& engine, const std::string& phase, uint64_t operations) {
                send(message(kPhase, {engine, phase, operations}));
              },
          .on_progress =
              [&send](const PhaseProgress& progress) {
                std::string bytes(1 + sizeof progress, kProgress);
                std::memcpy(bytes.data() + 1, &progress, sizeof progress);
                send(bytes);
              },
          .on_result = [&send](const RunResult& result) { send(kResult + encode_run(result)); },
          .on_note = [&send](const std::string& note) { send(kNote + note); },
          .on_left_out =
              [&send](const LeftOut& one) {
                send(message(kLeftOut, {one.engine, one.workload, one.reason}));
              }};
}

Status broken(const char* what) { return Status::Unavailable(std::string("its process sent ") + what); }

// Calls the listener as the child did. Errors: Unavailable (the message is no call, or the engine hangs).
Status receive(std::string_view bytes, const RunListener& listener) {
  if (bytes.empty()) return broken("nothing");
  const char call = bytes[0];
  const std::string_view rest = bytes.substr(1);
  if (call == kNote) {
    listener.on_note(std::string(rest));
    return Status::OK();
  }
  if (call == kProgress) {
    PhaseProgress progress;
    if (rest.size() != sizeof progress) return broken("no progress");
    std::memcpy(&progress, rest.data(), sizeof progress);
    if (listener.on_progress) listener.on_progress(progress);
    if (progress.seconds_idle < kIdleSecondsMax) return Status::OK();
    return Status::Unavailable("no operation has ended for " +
                               std::to_string(static_cast<uint64_t>(progress.seconds_idle)) +
                               " s, so it hangs and its process was killed");
  }
  if (call == kResult) {
    RunResult result;
    if (!decode_run(rest, &result)) return broken("no result");
    listener.on_result(result);
    return Status::OK();
  }
  const Json arguments = Json::from_cbor(rest, true, false);
  if (!arguments.is_array() || arguments.size() != 3) return broken("no call");
  if (call == kPhase) {
    listener.on_phase(arguments[0], arguments[1], arguments[2]);
  } else {
    listener.on_left_out({arguments[0], arguments[1], arguments[2]});
  }
  return Status::OK();
}

}  // namespace

Status run_engine_apart(const EngineEntry& entry, const RunConfig& config, const std::vector<Step>& steps,
                        const std::atomic<bool>& stop, const RunListener& listener) {
  const Status status =
      run_apart([&](const Send& send) { return run_engine(entry, config, steps, stop, sender(send)); },
                [&](std::string_view bytes) { return receive(bytes, listener); }, stop);
  if (!status.ok()) PoolPlace::remove_abandoned(config.pool_dir, config.out_dir);
  return status;
}

}  // namespace bonsai::bench
