//! Connections: their number, their memory while idle, and their end at a shutdown.

use super::*;

#[tokio::test]
async fn more_connections_than_there_may_be() {
    let (_test, server) = demo(small()).await;
    let mut within = Vec::new();
    for _ in 0..50 {
        within.push(server.connect().await);
    }
    server.counts("lucarne_http_connections ", 50).await;
    let mut beyond = server.connect().await;
    beyond
        .send(b"GET /demo/checkpoint HTTP/1.1\r\nhost: x\r\n\r\n")
        .await;
    let answer = beyond.answer().await.unwrap();
    assert_eq!(
        (answer.status, answer.header("retry-after")),
        (503, Some("5"))
    );
    assert_eq!(within[0].get("/demo/checkpoint").await.status, 200);
    drop((within, beyond));
    eventually("there is room again", async || {
        server.get("/demo/checkpoint").await.status == 200
    })
    .await;
}

/// Ten thousand idle connections, half of them after a request, do not prevent responses. The test
/// also prints the memory of each connection.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ten_thousand_idle_connections() {
    use rustix::process::{Resource, getrlimit, setrlimit};
    let mut files = getrlimit(Resource::Nofile);
    files.current = files
        .maximum
        .map(|most| most.min(1 << 20))
        .or(Some(1 << 20));
    let _ = setrlimit(Resource::Nofile, files);
    let most = getrlimit(Resource::Nofile).current.unwrap_or(1 << 20) as usize;
    // Both ends of each connection are in this process.
    let count = 10_000.min((most.saturating_sub(200)) / 2);
    if count < 10_000 {
        println!("only {count} connections: the limit is {most} open files");
    }

    let (_test, server) = demo(Limits {
        // Longer than the test takes on a busy machine.
        idle_timeout: Duration::from_secs(600),
        ..Limits::default()
    })
    .await;
    let before = resident();
    let mut idle = Vec::with_capacity(count);
    for n in 0..count {
        let mut client = server.connect().await;
        if n % 2 == 0 {
            assert_eq!(client.get("/demo/checkpoint").await.status, 200);
        }
        idle.push(client);
    }
    // Connections that have had a request drop their state after five seconds.
    let each = || resident().saturating_sub(before) / count;
    until("a connection costs less than 16 KiB", || each() < 16 << 10).await;
    println!("{count} idle connections, {} bytes each, both ends", each());
    still_there(&server).await;
    assert_eq!(idle[0].get("/demo/checkpoint").await.status, 200);
    assert_eq!(idle[count - 1].get("/demo/checkpoint").await.status, 200);
    // Idle connections do not delay the shutdown.
    in_time("the end of the server", server.stop())
        .await
        .unwrap();
}

/// A connection that has dropped its state still accepts requests.
#[tokio::test]
async fn an_idle_connection_wakes_up() {
    const LONG: Duration = Duration::from_secs(600);
    let (_test, server) = demo(Limits {
        idle_timeout: LONG,
        header_timeout: LONG,
        ..Limits::default()
    })
    .await;
    let mut client = server.connect().await;
    // This test depends on time: a connection drops its state after five idle seconds. If it has
    // not done so on a busy machine, the responses are the same.
    let idle = || tokio::time::sleep(Duration::from_millis(5200));
    assert_eq!(client.get("/demo/checkpoint").await.status, 200);
    idle().await;
    assert_eq!(client.get("/demo/checkpoint").await.status, 200);
    // The same in the middle of a request head.
    client.send(b"GET /demo/checkpoint HT").await;
    idle().await;
    client.send(b"TP/1.1\r\nhost: x\r\n\r\n").await;
    assert_eq!(client.answer().await.unwrap().status, 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_in_flight_are_finished_at_shutdown() {
    let test = TestLog::start("demo").await;
    test.fill(1).await;
    let gate = Gate::closed(&test.assets);
    let server = Server::start(
        vec![test.log.clone()],
        Limits {
            // Longer than the test takes on a busy machine.
            drain_timeout: Duration::from_secs(600),
            ..small()
        },
    )
    .await;
    let address = server.address;
    let mut idle = server.connect().await;
    assert_eq!(idle.get("/demo/checkpoint").await.status, 200);
    let mut waiting = server.connect().await;
    let body = test.chain("late.example").to_json();
    waiting.post("/demo/ct/v1/add-chain", body.as_bytes()).await;
    gate.reached().await;
    let stopped = server.stop();
    assert!(idle.closed().await, "idle connections are let go at once");
    gate.open();
    let answer = waiting.answer().await.unwrap();
    assert_eq!(answer.status, 200, "{}", answer.text());
    assert!(waiting.closed().await);
    stopped.await.unwrap();
    assert!(
        tokio::net::TcpStream::connect(address).await.is_err(),
        "nobody listens any more"
    );
}

#[tokio::test]
async fn a_drain_has_an_end() {
    let (_test, server) = demo(Limits {
        body_timeout: Duration::from_secs(60),
        drain_timeout: Duration::from_millis(200),
        ..Limits::default()
    })
    .await;
    let mut stuck = server.connect().await;
    stuck
        .send(b"POST /demo/ct/v1/add-chain HTTP/1.1\r\nhost: x\r\ncontent-length: 9\r\n\r\n{")
        .await;
    let held = || server.metric("lucarne_http_inflight_bytes ");
    until("the server waits for the body", || held() > 0).await;
    in_time("the end of the server", server.stop())
        .await
        .unwrap();
    assert!(stuck.closed().await);
}

/// A client cannot take all connections, and a full server still serves another client.
#[tokio::test]
async fn a_client_with_many_connections_makes_room_for_others() {
    let (_test, server) = demo(Limits {
        connections: 24,
        // Loopback is an ordinary client.
        trusted_proxies: Some(vec![]),
        ..small()
    })
    .await;
    let greedy = [127, 0, 0, 2];
    let mut of_greedy = Vec::new();
    for _ in 0..3 {
        let mut client = server.connect_from(greedy).await;
        assert_eq!(client.get("/demo/checkpoint").await.status, 200);
        of_greedy.push(client);
    }
    let beyond = server.connect_from(greedy).await.answer().await.unwrap();
    let after = beyond.header("retry-after");
    assert_eq!((beyond.status, after), (429, Some("5")));

    let mut others = Vec::new();
    for last in 0..22 {
        let mut other = server.connect_from([127, 0, 0, 3 + last]).await;
        assert_eq!(other.get("/demo/checkpoint").await.status, 200);
        others.push(other);
    }
    assert!(of_greedy[0].closed().await, "idle for the longest time");
    for client in of_greedy[1..].iter_mut().chain(&mut others) {
        assert_eq!(client.get("/demo/checkpoint").await.status, 200);
    }
    let cut = |reason| format!("lucarne_http_connections_cut_total{{reason=\"{reason}\"}} ");
    server.counts(&cut("displaced"), 1).await;
    server.counts(&cut("too many of a client"), 1).await;
}

/// The shortest time after which the server notices a closed connection otherwise.
const NOTICED: Duration = Duration::from_secs(14);

/// Long polls and feeds of clients that close their connection end at once: they do not occupy the
/// places of other requests until the next heartbeat. Pipelined requests change nothing.
#[tokio::test]
async fn waiting_requests_end_with_their_connection() {
    let (test, server) = demo(Limits::default()).await;
    let size = test.log.published().unwrap().size;
    let poll = format!("GET /demo/checkpoint?after={size} HTTP/1.1\r\nhost: x\r\n\r\n");
    let feed = "GET /demo/feed HTTP/1.1\r\nhost: x\r\n\r\n".to_owned();
    for request in [&poll, &feed] {
        let mut waiting = Vec::new();
        for _ in 0..10 {
            let mut client = server.connect().await;
            client.send(request.as_bytes()).await;
            waiting.push(client);
        }
        server.counts("lucarne_http_connections ", 10).await;
        if request == &feed {
            for client in &mut waiting {
                assert_eq!(client.answer().await.unwrap().status, 200);
            }
        }
        for client in &mut waiting[5..] {
            client.send(poll.repeat(20).as_bytes()).await;
        }
        let closed = Instant::now();
        drop(waiting);
        server.counts("lucarne_http_connections ", 0).await;
        assert!(closed.elapsed() < NOTICED, "{request}");
    }
    // A client that sends too many requests in advance does not wait.
    let mut hasty = server.connect().await;
    let sent = Instant::now();
    hasty.send(poll.repeat(1000).as_bytes()).await;
    assert_eq!(hasty.answer().await.unwrap().status, 200);
    assert!(sent.elapsed() < NOTICED);
    // A client that only closes its own side gets a response.
    let mut half = server.connect().await;
    half.send(poll.as_bytes()).await;
    half.stream.shutdown().await.unwrap();
    assert_eq!(half.answer().await.unwrap().status, 200);
}

/// A client that sends only PING frames is cut.
#[tokio::test]
async fn a_flood_of_pings_ends_its_connection() {
    let (_test, server) = demo(small()).await;
    let mut client = server.connect().await;
    client.send(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n").await;
    client.send(&[0, 0, 0, 4, 0, 0, 0, 0, 0]).await;
    let ping = [0, 0, 8, 6, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1];
    // More than twice the maximum, because the server may pause on a busy machine. The connection
    // may end before all frames are sent.
    let _ = client.stream.write_all(&ping.repeat(3500)).await;
    let cut = "lucarne_http_connections_cut_total{reason=\"control frames\"} ";
    server.counts(cut, 1).await;
    server.counts("lucarne_http_connections ", 0).await;
    still_there(&server).await;
}
