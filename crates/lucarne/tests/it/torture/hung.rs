//! A disk, or a part of it, hangs for some time.

use std::time::Duration;

use lucarne_testkit::{BadDisk, Place};
use rand::Rng;
use rand::seq::IndexedRandom;

use super::Cases;
use super::life::Life;

/// Parts of paths: all files, and each kind of a log's files.
const HUNG: [&str; 6] = [
    "/lucarne-test-",
    "lock.sqlite",
    "/data/.lucarne/journal",
    "/data/tile",
    "/data/",
    "/cache",
];

#[test]
fn disks_that_hang_lose_nothing() {
    let mut cases = Cases::new("the disk hangs", 4);
    let life = Life::new(Place::directory());
    while let Some(mut luck) = cases.next() {
        let disk = BadDisk::new();
        let hung = *HUNG.choose(&mut luck).unwrap();
        let time = Duration::from_millis(luck.random_range(50..2500));
        let killed = luck.random_bool(0.3);
        let fault = format!("{hung} for {time:?}, killed meanwhile: {killed}");
        let mut server = disk.under(life.log.launch("serve")).spawn().unwrap();
        if luck.random_bool(0.8) {
            let taking = life.waits_for_promises(|| None);
            taking.unwrap_or_else(|how| panic!("{fault}: {how}:\n{}", server.output()));
        }
        disk.hang(hung);
        // The fault lasts at least this long: the log must survive any length.
        std::thread::sleep(time);
        if !killed {
            disk.wake();
            let taking = life.waits_for_promises(|| None);
            taking.unwrap_or_else(|how| panic!("{fault}: {how}:\n{}", server.output()));
        }
        server.kill().unwrap();
        life.is_whole(&fault);
    }
    life.settle();
}
