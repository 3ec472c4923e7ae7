//! `lucarne demo`.
#![allow(clippy::unwrap_used)]

use std::fs;
use std::net::TcpListener;

use crate::common::{LUCARNE, PATIENCE, assert_has, eventually, lucarne, run};
use lucarne_testkit::{Client, Launch, free_port, temp_dir};
use rustix::process::Signal;

#[test]
fn the_demo_answers_stops_and_goes_on() {
    let directory = temp_dir();
    let port = free_port();
    let listen = format!("127.0.0.1:{port}");
    let mut sizes = Vec::new();
    // Ctrl-C, then a terminal that is closed.
    for signal in [Signal::INT, Signal::HUP] {
        let mut server = Launch::new(LUCARNE)
            .args(["demo", "--listen", &listen])
            .directory(directory.path())
            .start(listen.parse().unwrap())
            .unwrap();
        server.wait_for_output("Ctrl-C", PATIENCE).unwrap();
        let page = server.wait_for_output("    page ", PATIENCE).unwrap();
        let url = page.split_whitespace().last().unwrap().to_owned();
        run(async {
            let client = Client::new(&url);
            let checkpoint = client.get("checkpoint").await.unwrap().text();
            sizes.push(checkpoint.lines().nth(1).unwrap().parse::<u64>().unwrap());
            // The commands that it prints: the chains are there, and are new.
            let home = directory.path().join("lucarne-demo");
            for (file, endpoint) in [
                ("chain.json", "add-chain"),
                ("prechain.json", "add-pre-chain"),
            ] {
                let body = fs::read(home.join(file)).unwrap();
                let path = format!("ct/v1/{endpoint}");
                let first = client.post(&path, body.clone()).await.unwrap();
                assert_eq!(first.status, 200, "{}", first.text());
                let again = client.post(&path, body).await.unwrap().json().unwrap();
                let first = first.json().unwrap();
                assert_eq!(first["timestamp"], again["timestamp"]);
                assert_eq!(first["extensions"], again["extensions"]);
            }
            assert_eq!(client.get("").await.unwrap().status, 200);
            let site = Client::new(format!("http://{listen}"));
            assert_eq!(site.get("").await.unwrap().status, 200);
            eventually("the demo is healthy", async || {
                let answer = site.get("health").await;
                answer.is_ok_and(|answer| answer.status == 200)
            })
            .await;
        });
        server.signal(signal).unwrap();
        assert_eq!(
            server.wait(PATIENCE).unwrap().code(),
            Some(0),
            "{}",
            server.output()
        );
        assert_has(&server.output(), "nothing that was submitted is lost");
    }
    assert!(sizes[0] >= 24 && sizes[1] >= sizes[0] + 26, "{sizes:?}");
    let (code, said) = lucarne(
        directory.path(),
        &["check", "-c", "lucarne-demo/lucarne.yaml"],
    );
    assert_eq!(code, 0, "{said}");
}

#[test]
fn a_taken_port_names_the_way_out() {
    let directory = temp_dir();
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let listen = taken.local_addr().unwrap().to_string();
    let (code, said) = lucarne(directory.path(), &["demo", "--listen", &listen]);
    assert_eq!(code, 1);
    assert_has(&said, "--listen");
    assert!(!directory.path().join("lucarne-demo").exists());
    let (code, said) = lucarne(directory.path(), &["demo", "--listen", "nonsense"]);
    assert_eq!(code, 1);
    assert_has(&said, "has no port");
}
