// SPDX-License-Identifier: Apache-2.0
// bonsai-server with jedis: java Jedis.java PORT. Exit code 1: what failed is printed.
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.List;
import java.util.Objects;
import redis.clients.jedis.DefaultJedisClientConfig;
import redis.clients.jedis.HostAndPort;
import redis.clients.jedis.Pipeline;
import redis.clients.jedis.RedisProtocol;
import redis.clients.jedis.Response;
import redis.clients.jedis.Transaction;
import redis.clients.jedis.commands.ProtocolCommand;
import redis.clients.jedis.exceptions.JedisDataException;
import redis.clients.jedis.params.ScanParams;
import redis.clients.jedis.params.SetParams;

class Jedis {
  enum Own implements ProtocolCommand {
    RANGE,
    DELRANGE,
    SNAPSHOT;

    @Override
    public byte[] getRaw() {
      return name().getBytes(StandardCharsets.US_ASCII);
    }
  }

  private static int failed = 0;

  private static void check(String what, Object got, Object wanted) {
    if (Objects.equals(got, wanted)) return;
    System.out.println(what + ": " + got + " instead of " + wanted);
    ++failed;
  }

  private static String text(Object reply) {
    if (reply instanceof byte[] bytes) return new String(bytes, StandardCharsets.UTF_8);
    if (reply instanceof List<?> list) return list.stream().map(Jedis::text).toList().toString();
    return String.valueOf(reply);
  }

  private static void strings(redis.clients.jedis.Jedis client) {
    client.del("apple", "a", "b", "n", "k", "t");
    check("ping", client.ping(), "PONG");
    check("set", client.set("apple", "red"), "OK");
    check("get", client.get("apple"), "red");
    check("get of none", client.get("none"), null);
    check("setnx", client.setnx("apple", "blue"), 0L);
    check("set nx", client.set("apple", "blue", SetParams.setParams().nx()), null);
    check("incrBy", client.incrBy("n", 42), 42L);
    check("mset", client.mset("a", "1", "b", "2"), "OK");
    check("mget", client.mget("a", "none", "b"), Arrays.asList("1", null, "2"));
    check("exists", client.exists("a", "b", "none"), 2L);
    check("setex", client.setex("t", 1000, "1"), "OK");
    check("expire", client.expire("t", 2000), 1L);
    check("persist", client.persist("t"), 1L);
    check("ttl", client.ttl("t"), -1L);
    byte[] key = {0, 13, 10, -1};
    check("bytes", client.set(key, new byte[1 << 20]), "OK");
    check("bytes", client.get(key).length, 1 << 20);
    client.del(key);
    try {
      client.lpush("l", "v");
      check("lpush", "no error", "an error");
    } catch (JedisDataException error) {
      check("lpush", error.getMessage().startsWith("ERR unknown command 'LPUSH'"), true);
    }
  }

  private static void together(redis.clients.jedis.Jedis client, redis.clients.jedis.Jedis other) {
    Pipeline pipeline = client.pipelined();
    for (int i = 0; i < 1000; ++i) pipeline.set("key:" + i, "" + i);
    Response<String> last = pipeline.get("key:999");
    pipeline.sync();
    check("pipeline", last.get(), "999");
    int seen = 0;
    String cursor = ScanParams.SCAN_POINTER_START;
    do {
      var part = client.scan(cursor, new ScanParams().match("key:*").count(100));
      for (String each : part.getResult()) seen += (int) client.del(each);
      cursor = part.getCursor();
    } while (!cursor.equals(ScanParams.SCAN_POINTER_START));
    check("scan", seen, 1000);
    Transaction transaction = client.multi();
    transaction.set("k", "1");
    Response<Long> sum = transaction.incr("k");
    transaction.exec();
    check("transaction", sum.get(), 2L);
    client.watch("k");
    other.set("k", "7");
    transaction = client.multi();
    transaction.set("k", "3");
    check("watch", transaction.exec(), null);
    check("watch", client.get("k"), "7");
  }

  private static void own(redis.clients.jedis.Jedis client) {
    client.mset("r1", "1", "r2", "2", "r3", "3");
    check("snapshot", text(client.sendCommand(Own.SNAPSHOT, "CREATE", "java", "EX", "60")), "OK");
    check("delrange", client.sendCommand(Own.DELRANGE, "[r2", "[r3"), 2L);
    check("range", text(client.sendCommand(Own.RANGE, "[r", "(s")), "[r1, 1]");
    check("range", text(client.sendCommand(Own.RANGE, "(r1", "(s", "SNAPSHOT", "java")), "[r2, 2, r3, 3]");
    check("snapshot", client.sendCommand(Own.SNAPSHOT, "DROP", "java"), 1L);
    check("slowlog", client.slowlogReset(), "OK");
    check("slowlog", client.slowlogGet().size() <= 10, true);
    check("config", client.configGet("appendfsync").get("appendfsync"), "always");
  }

  public static void main(String[] arguments) {
    HostAndPort at = new HostAndPort("127.0.0.1", Integer.parseInt(arguments[0]));
    for (RedisProtocol protocol : RedisProtocol.values()) {
      var how = DefaultJedisClientConfig.builder().protocol(protocol).clientName("java").build();
      try (var client = new redis.clients.jedis.Jedis(at, how); var other = new redis.clients.jedis.Jedis(at, how)) {
        strings(client);
        together(client, other);
        own(client);
      }
    }
    System.exit(failed == 0 ? 0 : 1);
  }
}
