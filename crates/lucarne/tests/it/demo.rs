//! `lucarne demo`.

use std::fs;
use std::net::TcpListener;
use std::path::PathBuf;

use crate::common::{EVENT_TIMEOUT, LUCARNE, assert_has, eventually, lucarne, run};
use lucarne_testkit::{Client, Launch, free_port, temp_dir};
use rustix::process::{Pid, Signal, kill_process};

#[test]
fn the_demo_answers_stops_and_goes_on() {
    let directory = temp_dir();
    let port = free_port();
    let listen = format!("127.0.0.1:{port}");
    let mut sizes = Vec::new();
    // Ctrl-C, then a closed terminal.
    for signal in [Signal::INT, Signal::HUP] {
        // The usual limit of open files in a shell.
        let demo = format!("ulimit -n 1024; exec {LUCARNE} demo --listen {listen}");
        let mut server = Launch::new("sh")
            .args(["-c", &demo])
            .directory(directory.path())
            .start(listen.parse().unwrap())
            .unwrap();
        server.wait_for_output("Ctrl-C", EVENT_TIMEOUT).unwrap();
        let page = server.wait_for_output("    page ", EVENT_TIMEOUT).unwrap();
        let url = page.split_whitespace().last().unwrap().to_owned();
        run(async {
            let client = Client::new(&url);
            let checkpoint = client.get("checkpoint").await.unwrap().text();
            sizes.push(checkpoint.lines().nth(1).unwrap().parse::<u64>().unwrap());
            // The printed commands work: the files of chains exist, and the chains are new.
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
            server.wait(EVENT_TIMEOUT).unwrap().code(),
            Some(0),
            "{}",
            server.output()
        );
        let output = server.output();
        assert_has(&output, "nothing that was submitted is lost");
        assert!(!output.contains("WARN"), "{output}");
    }
    assert!(sizes[0] >= 24 && sizes[1] >= sizes[0] + 26, "{sizes:?}");
    let (code, said) = lucarne(
        directory.path(),
        &["check", "-c", "lucarne-demo/lucarne.yaml"],
    );
    assert_eq!(code, 0, "{said}");
}

/// The second run continues the log, the witness and the mirror of the first.
#[test]
fn a_witness_and_a_mirror_cosign_the_demo() {
    let directory = temp_dir();
    let listen = format!("127.0.0.1:{}", free_port());
    for _ in 0..2 {
        let mut demo = Launch::new(LUCARNE)
            .args(["demo", "--witness", "--listen", &listen])
            .directory(directory.path())
            .start(listen.parse().unwrap())
            .unwrap();
        demo.wait_for_output("Ctrl-C", EVENT_TIMEOUT).unwrap();
        let output = demo.output();
        let log = output.lines().find(|line| line.starts_with("    page "));
        let log = Client::new(log.unwrap().split_whitespace().last().unwrap());
        run(async {
            let site = Client::new(format!("http://{listen}"));
            let page = site.get("").await.unwrap().text();
            for name in ["witness.demo.example", "mirror.demo.example"] {
                let line = output
                    .lines()
                    .find(|it| it.ends_with(&format!(" by {name}")));
                assert_has(line.unwrap(), " cosigned ");
                let (_, row) = page.split_once(&format!("Cosigned by {name} (")).unwrap();
                assert_has(row.split("</dd>").next().unwrap(), "entries at 2");
            }
            eventually("the log has the cosignature", async || {
                let note = log.get("checkpoint").await.unwrap().text();
                note.contains("— witness.demo.example ")
            })
            .await;
            let health = site.get("health").await.unwrap();
            assert_eq!(health.status, 200, "{}", health.text());
        });
        demo.signal(Signal::INT).unwrap();
        let status = demo.wait(EVENT_TIMEOUT).unwrap();
        assert_eq!(status.code(), Some(0), "{}", demo.output());
    }
    let home = "lucarne-demo-witness";
    let (code, said) = lucarne(directory.path(), &["demo", "--dir", home]);
    assert_eq!(code, 1);
    assert_has(
        &said,
        "lucarne.yaml is of `--witness`: choose another --dir",
    );
    let check = ["check", "-c", "lucarne-demo-witness/lucarne.yaml"];
    let (code, said) = lucarne(directory.path(), &check);
    assert_eq!(code, 0, "{said}");
}

/// Runs three instances, reads the leader from the page, and kills it with the printed command. The
/// second run submits nothing.
#[test]
fn of_three_instances_another_leads_once_the_leader_is_killed() {
    let directory = temp_dir();
    let instances = DemoInstances(directory.path().join("lucarne-demo-instances"));
    let listen = format!("127.0.0.1:{}", free_port());
    let mut size = 0;
    for rate in ["10", "0"] {
        let mut demo = Launch::new(LUCARNE)
            .args(["demo", "--instances", "3", "--listen", &listen])
            .args(["--rate", rate])
            .directory(directory.path())
            .spawn()
            .unwrap();
        let kill = demo.wait_for_output("kill -9 ", EVENT_TIMEOUT).unwrap();
        let page = demo.wait_for_output("    leader ", EVENT_TIMEOUT).unwrap();
        let log = demo.wait_for_output("    log ", EVENT_TIMEOUT).unwrap();
        let url = |line: &str| Client::new(line.split_whitespace().last().unwrap());
        let (page, log) = (url(&page), url(&log));
        // Returns the row of the leader on the page.
        let leader = async || {
            let page = page.get("").await.unwrap().text();
            assert_eq!(page.matches("<td>follows<td>").count(), 2, "{page}");
            let (_, row) = page.split_once("<tr class=\"leads\">").unwrap();
            row.split("<tr").next().unwrap().to_owned()
        };
        let two_follow = || {
            eventually("two instances follow", async || {
                let page = page.get("").await.unwrap().text();
                page.matches("<td>follows<td>").count() == 2 && page.contains("class=\"leads\"")
            })
        };
        let shown = async || {
            let note = log.get("checkpoint").await.unwrap().text();
            note.lines().nth(1).unwrap().parse::<u64>().unwrap()
        };
        run(async {
            two_follow().await;
            assert_has(&leader().await, kill.trim());
            let shown = shown().await;
            assert!(shown >= size, "{shown} after {size}");
            size = shown;
        });
        let killed = Launch::new("sh").args(["-c", kill.trim()]).run().unwrap();
        assert!(killed.status.success(), "{killed:?}");
        let stopped = "has stopped; it restarts soon";
        demo.wait_for_output(stopped, EVENT_TIMEOUT).unwrap();
        if rate != "0" {
            let gap = "no SCT was issued";
            let told = demo.wait_for_output(gap, EVENT_TIMEOUT).unwrap();
            assert_has(&told, "leads; for ");
        }
        run(eventually("another instance leads", async || {
            let page = page.get("").await.unwrap().text();
            let leads = page.split_once("<tr class=\"leads\">");
            let row = leads.and_then(|(_, row)| row.split("<tr").next());
            page.matches("<td>follows<td>").count() == 2
                && row.is_some_and(|row| !row.contains(kill.trim()))
        }));
        if rate == "0" {
            assert_eq!(run(shown()), size, "nothing is submitted");
        } else {
            run(eventually("the log grows", async || shown().await > size));
        }
        demo.signal(Signal::INT).unwrap();
        let status = demo.wait(EVENT_TIMEOUT).unwrap();
        assert_eq!(status.code(), Some(0), "{}", demo.output());
        assert_has(&demo.output(), "nothing that was submitted is lost");
    }
    assert_eq!(instances.processes(), [0; 0], "none is left");
}

/// The processes that a demo has started in this directory. They outlive a demo that is killed,
/// which happens if the test fails.
struct DemoInstances(PathBuf);

impl DemoInstances {
    fn processes(&self) -> Vec<i32> {
        let all = fs::read_dir("/proc").unwrap().flatten();
        let here = all.filter(|process| {
            let at = fs::read_link(process.path().join("cwd"));
            at.is_ok_and(|at| at == self.0)
        });
        let number = |process: fs::DirEntry| process.file_name().to_str()?.parse().ok();
        here.filter_map(number).collect()
    }
}

impl Drop for DemoInstances {
    fn drop(&mut self) {
        for process in self.processes().into_iter().filter_map(Pid::from_raw) {
            let _ = kill_process(process, Signal::KILL);
        }
    }
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
