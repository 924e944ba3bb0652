// SPDX-License-Identifier: Apache-2.0
#include "base/wire_status.h"

#include <gtest/gtest.h>

#include <string>

namespace bonsai::base {
namespace {

TEST(WireStatusTest, AnErrorComesBackAsItWasSent) {
  for (const Status& sent :
       {Status::NotFound("a"), Status::InvalidArgument("b"), Status::Corruption("c"), Status::NotSupported("d"),
        Status::NoSpace("e"), Status::Busy("f"), Status::Unavailable("g"), Status::IoError("h")}) {
    const Status received = status_from_wire(static_cast<int32_t>(sent.code()), std::string(sent.message()));
    EXPECT_EQ(sent.code(), received.code());
    EXPECT_EQ(sent.message(), received.message());
    const Status renamed = sent.WithMessage("more");
    EXPECT_EQ(sent.code(), renamed.code());
    EXPECT_EQ("more", renamed.message());
  }
}

TEST(WireStatusTest, ACodeThatIsNoErrorBecomesIoError) {
  EXPECT_TRUE(Status::OK().WithMessage("x").ok());
  for (const int32_t code : {0, -1, 99}) EXPECT_TRUE(status_from_wire(code, "x").IsIoError()) << code;
}

}  // namespace
}  // namespace bonsai::base
