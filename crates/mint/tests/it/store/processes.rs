//! Several processes with one directory.

use std::collections::HashMap;
use std::process::{Command, Stdio};
use std::sync::Arc;

use lucarne_mint::Authority;
use lucarne_mint::store::{DiskOptions, DiskStore, MintOptions, Minter};

use super::support::{ca, host};

const HOME: &str = "LUCARNE_TEST_SHARED_STORE";
const HOSTS: usize = 40;

/// The other process: requests all hosts at the same time, and prints the results. Does nothing
/// without the environment variable, which the parent process sets.
#[test]
fn another_process() {
    let Ok(home) = std::env::var(HOME) else {
        return;
    };
    let home = std::path::PathBuf::from(home);
    let ca = std::fs::read_to_string(home.join("ca.pem")).unwrap();
    let store = DiskStore::open(&home.join("store"), DiskOptions::default()).unwrap();
    let ca = Authority::from_pem(&ca).unwrap();
    let minter = Arc::new(Minter::new(ca, Arc::new(store), MintOptions::default()).unwrap());
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        let asking: Vec<_> = (0..HOSTS)
            .map(|number| {
                let minter = minter.clone();
                let name = format!("host-{number}.example");
                tokio::spawn(async move {
                    let minted = minter.certificate(&host(&name)).await.unwrap();
                    let serial: String = minted.serial.iter().map(|b| format!("{b:02x}")).collect();
                    println!("got {name} {serial}");
                })
            })
            .collect();
        for asked in asking {
            asked.await.unwrap();
        }
    });
    let stats = minter.stats();
    println!("made {} {}", stats.generated, stats.disk_errors);
}

#[test]
fn processes_make_each_certificate_once_between_them() {
    let home = tempfile::tempdir().unwrap();
    std::fs::write(home.path().join("ca.pem"), ca().to_pem().unwrap()).unwrap();
    let processes: Vec<_> = (0..3)
        .map(|_| {
            Command::new(std::env::current_exe().unwrap())
                .args([
                    "--exact",
                    "store::processes::another_process",
                    "--nocapture",
                ])
                .env(HOME, home.path())
                .stdout(Stdio::piped())
                .spawn()
                .unwrap()
        })
        .collect();
    let (mut serials, mut made) = (HashMap::<String, String>::new(), 0);
    for process in processes {
        let output = process.wait_with_output().unwrap();
        assert!(output.status.success());
        let text = String::from_utf8(output.stdout).unwrap();
        let mut got = 0;
        for line in text.lines() {
            // The first of these lines follows the text of the test harness on the same line.
            let line = line.rsplit("... ").next().unwrap_or(line);
            match line.split(' ').collect::<Vec<_>>()[..] {
                ["got", name, serial] => {
                    got += 1;
                    let first = serials.entry(name.to_owned()).or_insert(serial.to_owned());
                    assert_eq!(first, serial, "{name} has two certificates");
                }
                ["made", count, errors] => {
                    made += count.parse::<usize>().unwrap();
                    assert_eq!(errors, "0");
                }
                _ => (),
            }
        }
        assert_eq!(got, HOSTS, "{text}");
    }
    assert_eq!((serials.len(), made), (HOSTS, HOSTS));
    let locks = std::fs::read_dir(home.path().join("store/locks")).unwrap();
    assert!(locks.count() <= 64, "locks do not grow with the hosts");
}
