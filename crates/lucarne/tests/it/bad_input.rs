//! Invalid and excessive requests get a clear response, and the log still serves other clients.

use std::fs;
use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::Arc;
use std::time::Duration;

use crate::common::load::Load;
use crate::common::{EVENT_TIMEOUT, LUCARNE, assert_has, log, pki, ready, run, submission};
use lucarne_mint::{Authority, CaOptions, KeyType};
use lucarne_testkit::{Launch, LogUnderTest, Server, raw_exchange, usage};
use rustix::process::{Resource, getrlimit, setrlimit};

/// Starts a log with short HTTP timeouts.
fn hasty() -> (LogUnderTest, Server) {
    let log = log("period: 20");
    let text = fs::read_to_string(log.configuration()).unwrap();
    let limits = "http: {headertimeout: 2s, bodytimeout: 2s, maxbody: 100kB}\n";
    fs::write(log.configuration(), text + limits).unwrap();
    let server = log.start().unwrap();
    run(ready(&log));
    (log, server)
}

/// Checks that the log accepts a submission and stops without errors.
fn goes_on(log: &LogUnderTest, server: &mut Server) {
    run(takes_a_submission(log));
    assert!(server.stop(EVENT_TIMEOUT).unwrap().success());
    let output = server.output();
    assert!(
        !output.contains("panicked") && !output.contains(" ERROR "),
        "{output}"
    );
}

async fn takes_a_submission(log: &LogUnderTest) {
    let body = submission(&pki().p256);
    let client = log.client();
    let answer = client.post("ct/v1/add-chain", body).await.unwrap();
    assert_eq!(answer.status, 200, "{}", answer.text());
}

fn head(length: usize, more: &str) -> String {
    format!(
        "POST /test/ct/v1/add-chain HTTP/1.1\r\nHost: x\r\nContent-Length: {length}\r\n{more}\r\n"
    )
}

/// Sends these bytes, and returns the response until the server closes the connection.
fn exchange(log: &LogUnderTest, bytes: &[u8]) -> String {
    let answer = run(raw_exchange(log.address(), bytes, EVENT_TIMEOUT));
    String::from_utf8_lossy(&answer.unwrap()).into_owned()
}

#[test]
fn bodies_that_break_off_and_bodies_that_never_end() {
    let (log, mut server) = hasty();
    let body = submission(&pki().rsa);
    for part in [0, 1, body.len() / 2, body.len() - 1] {
        // The client closes its side of the connection.
        let mut stream = TcpStream::connect(log.address()).unwrap();
        let request = head(body.len(), "") + &body[..part];
        stream.write_all(request.as_bytes()).unwrap();
        stream.shutdown(Shutdown::Write).unwrap();
        stream.set_read_timeout(Some(EVENT_TIMEOUT)).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        assert_has(&answer, "400 Bad Request");
        assert_has(&answer, "the body was cut off");
        // The client keeps the connection open, and sends nothing more.
        let answer = exchange(&log, request.as_bytes());
        assert_has(&answer, "408 Request Timeout");
        assert_has(&answer, "the body was not complete after 2 s");
        // The client announces a shorter body.
        let answer = exchange(
            &log,
            (head(part, "Connection: close\r\n") + &body[..part]).as_bytes(),
        );
        assert_has(&answer, "400 Bad Request");
        assert_has(&answer, "\"invalid_json\"");
    }
    goes_on(&log, &mut server);
}

#[test]
fn slow_clients_are_told_to_hurry_and_hold_up_nobody() {
    let (log, mut server) = hasty();
    let slow = |request: String| {
        let address = log.address();
        std::thread::spawn(move || {
            let mut stream = TcpStream::connect(address).unwrap();
            for byte in request.as_bytes() {
                if stream.write_all(&[*byte]).is_err() {
                    break;
                }
                // The test needs a slow client: it may be even slower on a busy machine.
                std::thread::sleep(Duration::from_millis(100));
            }
            stream.set_read_timeout(Some(EVENT_TIMEOUT)).unwrap();
            let mut answer = Vec::new();
            // A server that has closed the connection may reset it while the client still sends.
            let _ = stream.read_to_end(&mut answer);
            String::from_utf8_lossy(&answer).into_owned()
        })
    };
    let heads = (0..25).map(|_| slow("GET /test/checkpoint HTTP/1.1\r\nHost: x\r\n".into()));
    let heads: Vec<_> = heads.collect();
    let bodies = (0..25).map(|_| slow(head(1000, "")));
    let bodies: Vec<_> = bodies.collect();
    run(async {
        while !heads.iter().all(|client| client.is_finished()) {
            takes_a_submission(&log).await;
        }
    });
    for client in heads.into_iter().chain(bodies) {
        let answer = client.join().unwrap();
        assert!(answer.is_empty() || answer.contains(" 408 "), "{answer}");
    }
    goes_on(&log, &mut server);
}

/// Measures the server's memory for each connection, which must be small.
#[test]
fn ten_thousand_idle_connections() {
    let mut files = getrlimit(Resource::Nofile);
    files.current = files.maximum;
    let _ = setrlimit(Resource::Nofile, files);
    let most = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX) as usize;
    // One end of each connection is in this process, the other in the server.
    let count = 10_000.min(most.saturating_sub(500));
    let log = log("period: 20");
    let mut server = log.start().unwrap();
    run(ready(&log));
    run(takes_a_submission(&log));
    let before = usage(server.pid()).unwrap().rss;
    let mut idle = Vec::with_capacity(count);
    for number in 0..count {
        let mut stream = connect(&log);
        if number % 10 == 0 {
            // Some connections have served a request.
            stream
                .write_all(b"GET /test/checkpoint HTTP/1.1\r\nHost: x\r\n\r\n")
                .unwrap();
            assert!(stream.read(&mut [0; 1000]).unwrap() > 0);
        }
        idle.push(stream);
    }
    run(async {
        for _ in 0..5 {
            takes_a_submission(&log).await;
        }
        let client = log.client();
        assert_eq!(client.get("checkpoint").await.unwrap().status, 200);
        let site = lucarne_testkit::Client::new(format!("http://{}", log.address()));
        let metrics = site.get("metrics").await.unwrap().text();
        let open = metrics
            .lines()
            .find_map(|line| line.strip_prefix("lucarne_http_connections "));
        let open: usize = open.unwrap().parse().unwrap();
        assert!(open >= count, "{open} connections are open");
    });
    let each = usage(server.pid()).unwrap().rss.saturating_sub(before) / count as u64;
    println!(
        "{count} idle connections (open files: {most}), {each} bytes of the server's memory each"
    );
    assert!(
        each < 8 << 10,
        "{each} bytes for each of {count} connections"
    );
    drop(idle);
    goes_on(&log, &mut server);
}

#[test]
fn bodies_that_are_too_large_or_will_be() {
    let (log, mut server) = hasty();
    let before = usage(server.pid()).unwrap().peak_rss;
    // A large length is declared, and no body is sent.
    let answer = exchange(&log, head(1 << 40, "").as_bytes());
    assert_has(&answer, "413 Payload Too Large");
    assert_has(
        &answer,
        "the body is too long: expected at most 100000 bytes",
    );
    // A body without a length is sent in chunks.
    let mut chunked = b"POST /test/ct/v1/add-chain HTTP/1.1\r\nHost: x\r\n\
        Transfer-Encoding: chunked\r\n\r\n"
        .to_vec();
    for _ in 0..64 {
        chunked.extend(b"10000\r\n");
        chunked.extend([b' '; 0x10000]);
        chunked.extend(b"\r\n");
    }
    let answer = exchange(&log, &chunked);
    assert!(
        answer.is_empty() || answer.contains("413 Payload"),
        "{answer}"
    );
    // A gigabyte of spaces is compressed to less than 100 kB.
    let mut bomb = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    for _ in 0..256 {
        bomb.write_all(&[b' '; 1 << 22]).unwrap();
    }
    let bomb = &bomb.finish().unwrap()[..99_000];
    let mut request = head(bomb.len(), "Content-Encoding: gzip\r\n").into_bytes();
    request.extend(bomb);
    let answer = exchange(&log, &request);
    assert_has(&answer, "415 Unsupported Media Type");
    assert_has(&answer, "without compression");
    let grown = usage(server.pid()).unwrap().peak_rss - before;
    println!("{} KiB more than before", grown >> 10);
    assert!(grown < 32 << 20, "{grown}");
    goes_on(&log, &mut server);
}

#[test]
fn a_chain_of_a_hundred_certificates() {
    let log = log("period: 20");
    let mut server = log.start().unwrap();
    let mut chain = vec![pki().root.clone()];
    for number in 1..100 {
        let options = CaOptions::named(&format!("CA {number}"), KeyType::EcdsaP256);
        let above = &chain[number - 1];
        chain.push(above.intermediate(&options).unwrap());
    }
    run(async {
        ready(&log).await;
        let client = log.client();
        let post = |authority| client.post("ct/v1/add-chain", submission(authority));
        let answer = post(&chain[98]).await.unwrap();
        assert_eq!(answer.status, 400);
        let refusal = answer.json().unwrap();
        assert_eq!(refusal["code"], "chain_too_long", "{refusal}");
        assert_has(refusal["detail"].as_str().unwrap(), "20");
        // The longest chain that is allowed; the root is omitted.
        assert_eq!(post(&chain[19]).await.unwrap().status, 200);
    });
    goes_on(&log, &mut server);
}

#[test]
fn a_roots_file_with_garbage_between_good_certificates() {
    let other = Authority::root(&CaOptions::named("Other", KeyType::EcdsaP256)).unwrap();
    let key = lucarne_mint::pem::encode("PRIVATE KEY", &pki().leaf_key.to_pkcs8().unwrap());
    let noise = lucarne_mint::pem::encode("CERTIFICATE", &[0x30, 0x82, 1, 2, 3, 4]);
    let log = LogUnderTest::prepare(LUCARNE, "", "period: 20").unwrap();
    let (good, also_good) = (pki().roots_pem(), other.certificate_pem());
    let file: [&[u8]; 9] = [
        b"\xef\xbb\xbfsome words\r\n",
        good.as_bytes(),
        &[0, 255, 128, b'\n'],
        noise.as_bytes(),
        b"-----BEGIN CERTIFICATE-----\nnot base64 !!!\n-----END CERTIFICATE-----\n",
        key.as_bytes(),
        b"-----BEGIN CERTIFICATE-----\nMIIB\n",
        also_good.as_bytes(),
        b"-----BEGIN CERTIFICATE-----\nMII",
    ];
    fs::write(log.path().join("roots.pem"), file.concat()).unwrap();
    let made = log.launch("init").run().unwrap();
    assert!(made.status.success(), "{made:?}");
    let mut server = log.start().unwrap();
    run(async {
        ready(&log).await;
        for issuer in [&pki().p256, &other] {
            let client = log.client();
            let answer = client.post("ct/v1/add-chain", submission(issuer));
            let answer = answer.await.unwrap();
            assert_eq!(answer.status, 200, "{}", answer.text());
        }
    });
    for (number, why) in [
        (2, "expected 258 bytes, found 2"),
        (3, "its contents are not base64"),
        (4, "expected a CERTIFICATE block, found \"PRIVATE KEY\""),
        (5, "the block has no END line"),
        (7, "the file ends before the block does"),
    ] {
        let which = format!("roots.pem: certificate {number} (line ");
        let output = server.output();
        let line = output.lines().find(|line| line.contains(&which));
        assert_has(line.unwrap_or(&output), why);
    }
    goes_on(&log, &mut server);
}

#[test]
fn a_full_pool_says_when_to_come_back() {
    // Rounds long enough that concurrent submissions join the same round, even on a busy machine.
    let log = log("period: 1000\npoolsize: 8");
    let mut server = log.start().unwrap();
    let load = Arc::new(Load::new(&log));
    run(async {
        ready(&log).await;
        let known = load.fresh();
        assert_eq!(load.submit(&known).await, Some(true));
        let submit = |submission| {
            let load = load.clone();
            tokio::spawn(async move { load.submit(&submission).await })
        };
        let new: Vec<_> = (0..60).map(|_| submit(load.fresh())).collect();
        // Duplicates of logged entries are never rejected because the pool is full.
        let again: Vec<_> = (0..20).map(|_| submit(known.clone())).collect();
        let (mut taken, mut refused) = (0, 0);
        for answer in new {
            match answer.await.unwrap() {
                Some(true) => taken += 1,
                Some(false) => refused += 1,
                None => panic!("a connection was dropped"),
            }
        }
        for answer in again {
            assert_eq!(answer.await.unwrap(), Some(true));
        }
        println!("{taken} taken, {refused} told to come back");
        assert!(taken > 0 && refused > 0);
        // Retried submissions are accepted; no submission was rejected for another reason.
        load.settle_accounts().await.assert_clean();
    });
    goes_on(&log, &mut server);
}

/// Clients open more connections than the process may have files: the log has its own reserve of
/// files and still works.
#[test]
fn a_flood_of_connections_leaves_files_for_the_log() {
    let log = log("period: 20");
    let limited = Launch::new("/bin/sh")
        .args([
            "-c",
            "ulimit -n 512; exec \"$0\" \"$@\"",
            LUCARNE,
            "serve",
            "-c",
        ])
        .arg(log.configuration())
        .directory(log.path());
    let mut server = limited.start(log.address()).unwrap();
    run(ready(&log));
    // Some connections exist before the flood, and stay.
    let mut honest: Vec<_> = (0..3).map(|_| connect(&log)).collect();
    let flood: Vec<_> = (0..600).map(|_| connect(&log)).collect();
    for _ in 0..5 {
        for stream in &mut honest {
            let body = submission(&pki().p256);
            stream.write_all(head(body.len(), "").as_bytes()).unwrap();
            stream.write_all(body.as_bytes()).unwrap();
            let mut answer = [0; 4096];
            let read = stream.read(&mut answer).unwrap();
            let answer = String::from_utf8_lossy(&answer[..read]);
            assert!(
                answer.starts_with("HTTP/1.1 200 "),
                "{answer}\n{}",
                server.output()
            );
        }
    }
    let files = fs::read_dir(format!("/proc/{}/fd", server.pid()))
        .unwrap()
        .count();
    assert!(files < 450, "{files} files are open");
    drop((honest, flood));
    let output = server.output();
    assert_has(&output, "maxconnections is reduced");
    assert!(!output.contains("Too many open files"), "{output}");
    // The last connections are closed in a moment.
    run(ready(&log));
    goes_on(&log, &mut server);
}

fn connect(log: &LogUnderTest) -> TcpStream {
    let stream = TcpStream::connect(log.address()).unwrap();
    stream.set_read_timeout(Some(EVENT_TIMEOUT)).unwrap();
    stream
}

/// A limit of open files that is too low for serving is reported at startup.
#[test]
fn too_few_files_are_refused_at_the_start() {
    let log = log("period: 20");
    let limited = Launch::new("/bin/sh")
        .args([
            "-c",
            "ulimit -n 100; exec \"$0\" \"$@\"",
            LUCARNE,
            "serve",
            "-c",
        ])
        .arg(log.configuration())
        .directory(log.path());
    let output = limited.run().unwrap();
    assert!(!output.status.success());
    assert_has(&String::from_utf8_lossy(&output.stderr), "LimitNOFILE=");
}
