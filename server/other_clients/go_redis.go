// SPDX-License-Identifier: Apache-2.0

// bonsai-server with go-redis: go_redis ADDRESS. Exit code 1: what failed is printed.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"reflect"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

var (
	ctx    = context.Background()
	failed = 0
)

func check(what string, got, wanted any) {
	if !reflect.DeepEqual(got, wanted) {
		fmt.Printf("%s: %#v instead of %#v\n", what, got, wanted)
		failed++
	}
}

func strings1(c *redis.Client) {
	check("ping", c.Ping(ctx).Val(), "PONG")
	check("del", c.Del(ctx, "apple", "a", "b", "n", "k", "t").Err(), nil)
	check("set", c.Set(ctx, "apple", "red", 0).Val(), "OK")
	check("get", c.Get(ctx, "apple").Val(), "red")
	check("get of none", c.Get(ctx, "none").Err(), redis.Nil)
	check("setnx", c.SetNX(ctx, "apple", "blue", 0).Val(), false)
	check("set xx get", c.SetArgs(ctx, "apple", "green", redis.SetArgs{Mode: "XX", Get: true}).Val(), "red")
	check("incrby", c.IncrBy(ctx, "n", 41).Val(), int64(41))
	check("incr", c.Incr(ctx, "n").Val(), int64(42))
	check("mset", c.MSet(ctx, "a", "1", "b", "2").Val(), "OK")
	check("mget", c.MGet(ctx, "a", "none", "b").Val(), []any{"1", nil, "2"})
	check("getrange", c.GetRange(ctx, "apple", 1, -1).Val(), "reen")
	check("append", c.Append(ctx, "apple", "!").Val(), int64(6))
	check("exists", c.Exists(ctx, "a", "b", "none").Val(), int64(2))
	check("set with a life", c.Set(ctx, "t", "1", time.Hour).Val(), "OK")
	check("ttl", c.TTL(ctx, "t").Val(), time.Hour)
	check("expire", c.Expire(ctx, "t", time.Minute).Val(), true)
	check("persist", c.Persist(ctx, "t").Val(), true)
	check("an unknown command", strings.HasPrefix(c.LPush(ctx, "l", "v").Err().Error(), "ERR unknown command 'lpush'"), true)
}

func together(c *redis.Client) {
	commands, err := c.Pipelined(ctx, func(p redis.Pipeliner) error {
		for i := 0; i < 1000; i++ {
			p.Set(ctx, fmt.Sprintf("key:%03d", i), i, 0)
		}
		return nil
	})
	check("pipeline", []any{len(commands), err}, []any{1000, error(nil)})
	keys := []string{}
	for each := c.Scan(ctx, 0, "key:*", 17).Iterator(); each.Next(ctx); {
		keys = append(keys, each.Val())
	}
	check("scan", []any{len(keys), keys[0], keys[999]}, []any{1000, "key:000", "key:999"})
	check("del of many", c.Del(ctx, keys...).Val(), int64(1000))
	_, err = c.TxPipelined(ctx, func(p redis.Pipeliner) error {
		p.Set(ctx, "k", 1, 0)
		p.Incr(ctx, "k")
		return nil
	})
	check("transaction", []any{err, c.Get(ctx, "k").Val()}, []any{error(nil), "2"})
	err = c.Watch(ctx, func(tx *redis.Tx) error {
		c.Set(ctx, "k", 7, 0)
		_, err := tx.TxPipelined(ctx, func(p redis.Pipeliner) error { return p.Set(ctx, "k", 3, 0).Err() })
		return err
	}, "k")
	check("watch", []any{errors.Is(err, redis.TxFailedErr), c.Get(ctx, "k").Val()}, []any{true, "7"})
}

func ownCommands(c *redis.Client) {
	check("mset", c.MSet(ctx, "r1", "1", "r2", "2", "r3", "3").Val(), "OK")
	check("snapshot", c.Do(ctx, "SNAPSHOT", "CREATE", "go", "EX", 60).Val(), "OK")
	check("delrange", c.Do(ctx, "DELRANGE", "[r2", "[r3").Val(), int64(2))
	check("range", c.Do(ctx, "RANGE", "[r", "(s").Val(), []any{"r1", "1"})
	check("range of a snapshot", c.Do(ctx, "RANGE", "(r1", "(s", "SNAPSHOT", "go").Val(), []any{"r2", "2", "r3", "3"})
	check("snapshot get", c.Do(ctx, "SNAPSHOT", "GET", "go", "r2", "r9").Val(), []any{"2", nil})
	check("snapshot drop", c.Do(ctx, "SNAPSHOT", "DROP", "go").Val(), int64(1))
	_, err := c.SlowLogGet(ctx, 10).Result()
	check("slowlog get", err, nil)
	check("config get", c.ConfigGet(ctx, "appendfsync").Val(), map[string]string{"appendfsync": "always"})
	check("info", strings.Contains(c.Info(ctx, "persistence").Val(), "ok_means:durable"), true)
}

func main() {
	for _, protocol := range []int{2, 3} {
		c := redis.NewClient(&redis.Options{Addr: os.Args[1], Protocol: protocol, ClientName: "go", MaxRetries: -1})
		strings1(c)
		together(c)
		ownCommands(c)
		if err := c.Close(); err != nil {
			check("close", err, nil)
		}
	}
	if failed != 0 {
		os.Exit(1)
	}
}
