//! Signals to `lucarne load` while its target never responds.
#![allow(clippy::unwrap_used)]

use std::net::TcpListener;

use crate::common::{EVENT_TIMEOUT, LUCARNE, assert_has, eventually, run};
use lucarne_testkit::{Launch, Signal, temp_dir};

/// The graceful stop lasts an hour, and the timeout of the one request is longer.
#[test]
fn the_second_signal_does_not_wait_for_a_target_that_hangs() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap());
    std::thread::spawn(move || listener.incoming().collect::<Vec<_>>());
    let here = temp_dir();
    let mut load = Launch::new(LUCARNE)
        .args(["load", "rest", "--url", &url, "--duration=1h", "--no-ui"])
        .args(["--timeout=2h", "--graceful-stop=1h", "--summary=s.json"])
        .directory(here.path())
        .spawn()
        .unwrap();
    run(eventually("the load has begun", async || {
        load.output().contains("busy=1")
    }));
    load.signal(Signal::TERM).unwrap();
    run(eventually("the first signal is heard", async || {
        load.output().contains("SIGTERM: no new iterations begin")
    }));
    // Signals in quick succession are merged, so the signal is repeated until it is received.
    run(eventually("the second signal is heard", async || {
        load.signal(Signal::TERM).unwrap();
        load.output()
            .contains("SIGTERM: cancelling the running iterations")
    }));
    let status = load.wait(EVENT_TIMEOUT * 2).unwrap();
    let said = load.output();
    assert_eq!(status.code(), Some(105), "{said}");
    assert_has(&said, "1 cut off");
    assert!(here.path().join("s.json").exists());
}
