// Refuses unlisted connections to a run's port: other programs and other runs.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include <atomic>
#include <cerrno>
#include <thread>

#include "../facts.h"
#include "comm/wire.h"
#include "processes.h"

namespace llmc::ranks {
namespace {

using testing::HasSubstr;

MonotonicTime soon() { return std::chrono::steady_clock::now() + 1s; }

/// Opens a connection to the port and sends `bytes`; retries until a process listens.
Socket visit(int port, const std::string& bytes) {
  std::string why;
  std::optional<Socket> socket;
  while (!(socket = connect_to({"127.0.0.1", port}, soon(), why))) std::this_thread::sleep_for(2ms);
  EXPECT_EQ(send(socket->fd(), bytes.data(), bytes.size(), MSG_NOSIGNAL), static_cast<ssize_t>(bytes.size()));
  return std::move(*socket);
}

std::string hello(std::uint64_t rank, std::uint64_t world_size, const std::string& id,
                  const std::string& fingerprint = "trainer", const std::string& host = "elsewhere") {
  return encode(Word::hello, BodyWriter().number(rank).number(world_size).text(id).text(fingerprint).text(host).body());
}

TEST(Stranger, AtRank0sPortIsNotBelieved) {
  const int port = free_port();
  std::vector<Process> processes;
  const auto rank = [&](int number) {
    processes.emplace_back([&, number] {
      Rendezvous rendezvous(launch_of(number, 3, port), {20000ms, 50ms, 1500ms});
      rendezvous.barrier();
      rendezvous.leave();
      return 0;
    });
  };
  rank(0);
  rank(1);
  std::vector<Socket> visitors;
  std::string huge = hello(2, 3, "test");
  huge[8 + 4] = 1;  // a length of 4 GiB
  for (const std::string& bytes :
       {std::string("GET / HTTP/1.1\r\n\r\n"), std::string("x"), std::string(), std::string(100000, 'l'),
        encode(Word::welcome, ""), encode(Word::gather, std::string(4000, 'x')), hello(2, 3, "test").substr(0, 20),
        huge, encode(Word::hello, "short"), hello(2, 4, "test"), hello(2, 3, "other"), hello(2, 3, ""),
        hello(2, 3, "test", "other"), hello(2, 3, "test", ""),
        encode(Word::hello, BodyWriter().number(2).number(3).text("test").text("host").body()), hello(0, 3, "test"),
        hello(3, 3, "test"), hello(~0ull, 3, "test")})
    visitors.push_back(visit(port, bytes));
  std::this_thread::sleep_for(50ms);
  rank(2);
  for (const End& end : wait(processes)) EXPECT_EQ(end.code, 0) << end.err;
}

/// Text of rank 0's refusal.
std::string answer_to(const Socket& socket) {
  MessageReader reader(8192);
  std::string bytes(8192, '\0');
  while (true) {
    if (std::optional<Message> message = reader.next()) {
      EXPECT_EQ(message->word, Word::refused);
      BodyReader body(message->body);
      EXPECT_EQ(body.number(), 2u);
      return body.text();
    }
    pollfd wait{socket.fd(), POLLIN, 0};
    const ssize_t n = poll(&wait, 1, 20000) > 0 ? recv(socket.fd(), bytes.data(), bytes.size(), 0) : 0;
    if (n <= 0) return "nothing";
    reader.add({bytes.data(), static_cast<std::size_t>(n)});
  }
}

TEST(Stranger, IsToldWhyButNotWhatItWouldHaveToSay) {
  const int port = free_port();
  Process root([&] {
    LauncherInfo launch = launch_of(0, 2, port);
    launch.id = "the run";
    launch.fingerprint = "0123abcd";
    Rendezvous rendezvous(launch, {1500ms, 50ms, 1500ms});
    return 0;
  });
  const std::string other_run = answer_to(visit(port, hello(1, 2, "a\x1b[2Jb", "0123abcd", "c\nd\x9b")));
  EXPECT_TRUE(test::has_facts(other_run,
                              {"rank 1 on c d\\x9b ", "run 'a\\x1b[2Jb'", "rank 0 on " + own_host(), "another run"}));
  EXPECT_EQ(other_run.find("the run'"), std::string::npos) << other_run;
  const std::string other_trainer = answer_to(visit(port, hello(1, 2, "the run", "ffff")));
  EXPECT_TRUE(test::has_facts(
      other_trainer, {"rank 1 on elsewhere ", "fingerprint ffff", "rank 0 on " + own_host(), "another fingerprint"}));
  EXPECT_EQ(other_trainer.find("0123abcd"), std::string::npos) << other_trainer;
  const std::string long_names =
      answer_to(visit(port, hello(1, 2, std::string(4000, 'i'), "", std::string(4000, 'h'))));
  EXPECT_LT(long_names.size(), 1500u);
  const End end = root.wait();
  EXPECT_EQ(end.code, 170);
  EXPECT_THAT(end.err, HasSubstr("'the run'; rank 1 on c d"));
  EXPECT_THAT(end.err, HasSubstr("0123abcd; rank 1 on elsewhere "));
  EXPECT_EQ(end.err.find('\x1b'), std::string::npos) << end.err;
}

TEST(Stranger, WhoIsRefusedCannotFillTheMemoryOfRank0) {
  const int port = free_port();
  const auto resident_kib = [] {
    rusage usage{};
    getrusage(RUSAGE_SELF, &usage);
    return usage.ru_maxrss;
  };
  std::vector<Process> processes;
  processes.emplace_back([&] {
    const long before = resident_kib();
    Rendezvous rendezvous(launch_of(0, 2, port), {20000ms, 50ms, 1500ms});
    rendezvous.leave();
    return resident_kib() - before < (32 << 10) ? 0 : 1;
  });
  const Socket visitor = visit(port, hello(1, 2, "other"));
  const std::string bytes(std::size_t{1} << 20, 'x');
  for (std::size_t sent = 0; sent < (std::size_t{96} << 20);) {
    pollfd wait{visitor.fd(), POLLOUT, 0};
    ASSERT_GT(poll(&wait, 1, 20000), 0);
    const ssize_t n = send(visitor.fd(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (n < 0 && errno != EAGAIN) break;  // time limit reached
    if (n > 0) sent += static_cast<std::size_t>(n);
  }
  processes.emplace_back([&] {
    Rendezvous rendezvous(launch_of(1, 2, port), {20000ms, 50ms, 1500ms});
    rendezvous.leave();
    return 0;
  });
  for (const End& end : wait(processes)) EXPECT_EQ(end.code, 0) << end.err;
}

TEST(Stranger, ManyWhoSayNothingDoNotKeepRanksOut) {
  const int port = free_port();
  std::vector<Process> processes;
  for (int rank = 0; rank < 2; ++rank)
    processes.emplace_back([&, rank] {
      if (rank == 1) std::this_thread::sleep_for(200ms);
      Rendezvous rendezvous(launch_of(rank, 2, port), {20000ms, 50ms, 1500ms});
      rendezvous.leave();
      return 0;
    });
  std::vector<Socket> visitors;
  for (int i = 0; i < 150; ++i) visitors.push_back(visit(port, ""));
  for (const End& end : wait(processes)) EXPECT_EQ(end.code, 0) << end.err;
}

struct Answer {
  std::string bytes;
  test::Facts facts;  // of rank 1's message about it
  bool close = false;
};

TEST(Stranger, InRank0sPlaceIsNotBelieved) {
  std::string old = encode(Word::accepted, BodyWriter().text("host").body());
  old[4] = 9;
  const std::vector<Answer> answers = {{"HTTP/1.1 400 Bad Request\r\n", "another protocol"},
                                       {encode(Word::beat, ""), {"not an answer", "rank 0"}},
                                       {encode(Word::accepted, ""), "too short"},
                                       {encode(Word::accepted, std::string(10000, 'x')), {"10000 bytes", "8192"}},
                                       {"", "does not answer"},
                                       {"", "closed the connection", true},
                                       {old, {"version 9", "2"}}};
  std::vector<Socket> listeners, visitors;
  std::vector<Process> processes;
  for (std::size_t i = 0; i < answers.size(); ++i) {
    listeners.push_back(listen_at(0, soon()));
    processes.emplace_back([&] {
      Rendezvous rendezvous(launch_of(1, 2, port_of(listeners.back())), {400ms, 50ms, 1500ms});
      return 0;
    });
  }
  std::atomic<bool> done = false;
  std::thread strangers([&] {
    while (!done) {
      for (std::size_t i = 0; i < answers.size(); ++i) {
        std::optional<Socket> socket = accept_at(listeners[i]);
        if (!socket) continue;
        const std::string& bytes = answers[i].bytes;
        send(socket->fd(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
        if (!answers[i].close) visitors.push_back(std::move(*socket));
      }
      std::this_thread::sleep_for(1ms);
    }
  });
  const std::vector<End> ends = wait(processes);
  done = true;
  strangers.join();
  for (std::size_t i = 0; i < answers.size(); ++i) {
    EXPECT_EQ(ends[i].code, 170);
    EXPECT_TRUE(test::has_facts(ends[i].err, {"rank 0 at 127.0.0.1:", "the program"}));
    EXPECT_TRUE(test::has_facts(ends[i].err.substr(ends[i].err.find("the program")), answers[i].facts));
  }
}

TEST(Stranger, WhoHoldsThePortIsSaid) {
  const int port = free_port();
  const Socket holder = listen_at(port, soon());
  Process process([&] {
    Rendezvous rendezvous(launch_of(0, 2, port), {200ms, 50ms, 1500ms});
    return 0;
  });
  const End end = process.wait();
  EXPECT_EQ(end.code, 2);
  EXPECT_THAT(end.err, HasSubstr(" port " + std::to_string(port)));
  EXPECT_THAT(end.err, HasSubstr("another MASTER_PORT"));
}

TEST(Stranger, ARankOfAnotherRunIsToldSo) {
  const int port = free_port();
  Process root([&] {
    Rendezvous rendezvous(launch_of(0, 2, port), {1000ms, 50ms, 1500ms});
    return 0;
  });
  Process wrong_size([&] {
    Rendezvous rendezvous(launch_of(1, 3, port), kLimits);
    return 0;
  });
  const End refused = wrong_size.wait();
  EXPECT_EQ(refused.code, 2);
  EXPECT_TRUE(test::has_facts(refused.err,
                              {"rank 1 on " + own_host(), "world size of 3", "rank 0 on " + own_host(), "2 ranks"}));
  const End end = root.wait();
  EXPECT_EQ(end.code, 170);
  EXPECT_THAT(end.err, HasSubstr("rank 1 of 2 did not connect"));
  EXPECT_TRUE(test::has_facts(end.err, {"rank 0 refused: rank 1 on " + own_host(), "size of 3"}));
}

TEST(Stranger, ARankThatIsThereAlreadyIsToldSo) {
  const int port = free_port();
  std::vector<Process> processes;
  for (int i = 0; i < 2; ++i)
    processes.emplace_back([&] {
      Rendezvous rendezvous(launch_of(1, 3, port), kLimits);
      return 0;
    });
  Process root([&] {
    Rendezvous rendezvous(launch_of(0, 3, port), {700ms, 50ms, 1500ms});
    return 0;
  });
  std::vector<End> ends = wait(processes);
  if (ends[0].code != 2) std::swap(ends[0], ends[1]);
  EXPECT_EQ(ends[0].code, 2);
  EXPECT_THAT(ends[0].err, HasSubstr("already, from " + own_host()));
  EXPECT_EQ(ends[1].code, 170);
}

}  // namespace
}  // namespace llmc::ranks
