//! `lucarne archive`: whole logs in zip files.

use std::fs::{self, File};
use std::io::{Read, Write};
use std::path::Path;

use base64_simd::STANDARD;
use lucarne_ct::{LogKey, SignedEntryRef, TileLeafRef};
use lucarne_testkit::{LogUnderTest, temp_dir};
use lucarne_tlog::RightEdge;
use zip::write::SimpleFileOptions;
use zip::{ZipArchive, ZipWriter};

use crate::common::{EVENT_TIMEOUT, assert_has, log, lucarne};
use crate::fsck::grown;

/// Returns a stopped log with two data tiles.
fn stopped() -> LogUnderTest {
    let log = log("period: 20");
    let mut server = grown(&log);
    assert!(server.stop(EVENT_TIMEOUT).unwrap().success());
    log
}

fn archive(log: &LogUnderTest, args: &[&str]) -> (i32, String) {
    lucarne(log.path(), &[&["archive"], args].concat())
}

/// Returns names and contents of a zip file, in its order.
fn contents(path: &Path) -> Vec<(String, Vec<u8>)> {
    let mut zip = ZipArchive::new(File::open(path).unwrap()).unwrap();
    let files = (0..zip.len()).map(|index| {
        let mut file = zip.by_index(index).unwrap();
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes).unwrap();
        (file.name().unwrap().into_owned(), bytes)
    });
    files.collect()
}

/// Writes a zip file with the files that `keep` accepts.
fn rewritten(path: &Path, mut files: Vec<(String, Vec<u8>)>, change: impl Fn(&str, &mut Vec<u8>)) {
    let mut zip = ZipWriter::new(File::create(path).unwrap());
    for (name, bytes) in &mut files {
        change(name, bytes);
        if !bytes.is_empty() {
            zip.start_file(name.as_str(), SimpleFileOptions::default())
                .unwrap();
            zip.write_all(bytes).unwrap();
        }
    }
    zip.finish().unwrap();
}

#[test]
fn an_archive_is_complete_and_survives_interruptions() {
    let log = stopped();
    let (code, said) = archive(&log, &["-o", "whole"]);
    assert_eq!(code, 0, "{said}");
    assert_has(&said, "in 1 zip file: right");
    let zip = log.path().join("whole/000.zip");
    let files = contents(&zip);
    let names: Vec<&str> = files.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names.last(), Some(&"checkpoint"));
    for name in ["README.txt", "log.v3.json", "tile/0/000", "tile/data/000"] {
        assert!(names.contains(&name), "{name}: {names:?}");
    }
    let issuers = names.iter().filter(|name| name.starts_with("issuer/"));
    assert!(issuers.count() > 0, "{names:?}");
    for args in [&["--verify", "--at", "whole"][..], &["-o", "whole"]] {
        let (code, said) = archive(&log, args);
        let refused = usize::from(args[0] == "-o");
        assert_eq!(code, [0, 2][refused], "{said}");
        assert_has(&said, ["in 1 zip file: right", "whole exists"][refused]);
    }
    let (code, said) = lucarne(log.path(), &["fsck", "--at", "whole"]);
    assert_eq!(code, 0, "{said}");
    assert_has(&said, "right: 0 wrong, 0 unreadable; ");

    // The states that interrupted runs leave: a zip file that is cut at any place, a complete one,
    // after a full disk one with some of the last files, and one with a damaged tile. The log has
    // another checkpoint since then.
    fs::write(log.data().join("checkpoint"), "of a later tree").unwrap();
    let whole = fs::read(&zip).unwrap();
    let work = log.path().join("again.part");
    let mut flipped = whole.clone();
    flipped[100] ^= 1;
    for part in 0..=14 {
        let at = whole.len() * part.min(12) / 12;
        fs::create_dir_all(&work).unwrap();
        for name in ["checkpoint", "log.v3.json"] {
            fs::copy(log.path().join("whole").join(name), work.join(name)).unwrap();
        }
        fs::write(work.join("000.zip"), &whole[..at]).unwrap();
        fs::write(work.join("tiles.tmp"), &whole[at..]).unwrap();
        if part == 13 {
            let without = |name: &str, bytes: &mut Vec<u8>| {
                if name == "checkpoint" {
                    bytes.clear();
                }
            };
            rewritten(&work.join("000.zip"), files.clone(), without);
        } else if part == 14 {
            fs::write(work.join("000.zip"), &flipped).unwrap();
        }
        let (code, said) = archive(&log, &["-o", "again"]);
        assert_eq!(code, 0, "{part}: {said}");
        let again = log.path().join("again");
        assert!(fs::read(again.join("000.zip")).unwrap() == whole, "{part}");
        fs::remove_dir_all(again).unwrap();
    }
}

#[test]
fn missing_and_wrong_files_are_named() {
    let log = stopped();
    assert_eq!(archive(&log, &["-o", "whole"]).0, 0);
    let files = contents(&log.path().join("whole/000.zip"));
    let issuer = files.iter().find(|(name, _)| name.starts_with("issuer/"));
    let issuer = issuer.unwrap().0.clone();
    let damaged = log.path().join("damaged");
    fs::create_dir_all(&damaged).unwrap();
    let zip = damaged.join("000.zip");
    let remove = |_: &str, bytes: &mut Vec<u8>| bytes.clear();
    let flip = |_: &str, bytes: &mut Vec<u8>| bytes[20] ^= 1;
    for (name, change, found) in [
        (
            &*issuer,
            &remove as &dyn Fn(&str, &mut Vec<u8>),
            "is missing",
        ),
        (&*issuer, &flip, "is another certificate"),
        ("log.v3.json", &remove, "log.v3.json"),
        ("tile/0/000", &flip, "tile/0/000: the hashes do not lead"),
        ("tile/data/000", &flip, "tile/data/000: "),
        ("tile/data/000", &remove, "tile/data/000: is missing"),
    ] {
        rewritten(&zip, files.clone(), |file, bytes| {
            if file == name {
                change(file, bytes);
            }
        });
        let (code, said) = archive(&log, &["--verify", "--at", "damaged"]);
        assert_ne!(code, 0, "{name}: {said}");
        assert_has(&said, found);
    }
    fs::write(&zip, &fs::read(&zip).unwrap()[..1000]).unwrap();
    let (code, said) = archive(&log, &["--verify", "--at", "damaged"]);
    assert_eq!(code, 2, "{said}");
    assert_has(&said, "000.zip: ");

    // A log without an issuer has no archive until it is repaired.
    fs::remove_file(log.data().join(&issuer)).unwrap();
    let (code, said) = archive(&log, &["-o", "without"]);
    assert_eq!(code, 2, "{said}");
    assert_has(&said, &format!("{issuer}: is missing"));
    assert!(!log.path().join("without").exists());
}

/// Entries of an archived RFC 6962 log have no index.
#[test]
fn an_archived_rfc6962_log_is_right() {
    let directory = temp_dir();
    let key = LogKey::from_seed(&[7; 32]).unwrap();
    let (mut data, mut leaves, mut buffer) = (Vec::new(), Vec::new(), Vec::new());
    for n in 0..3_u8 {
        let leaf = TileLeafRef {
            timestamp: 7,
            signed: SignedEntryRef::X509 { certificate: &[n] },
            extensions: &[],
            precertificate: None,
            index: n.into(),
            fingerprints: Default::default(),
        };
        leaf.encode(&mut data);
        leaves.push(leaf.leaf_hash(&mut buffer));
    }
    let mut edge = RightEdge::new();
    let tiles = edge.append(&leaves).into_iter();
    let mut files: Vec<_> = tiles.map(|(tile, bytes)| (tile.path(), bytes)).collect();
    files.push(("tile/data/000.p/3".into(), data));
    let root = edge.root();
    let note = key.sign_checkpoint("log.example/2020", 3, &root, 1_767_225_600_000);
    let spki = STANDARD.encode_to_string(key.public_key_spki());
    let description = |url: &str| {
        format!(r#"{{"{url}": "https://log.example/2020/", "key": "{spki}"}}"#).into_bytes()
    };
    files.push(("checkpoint".into(), note.unwrap().into_bytes()));
    files.push(("log.v3.json".into(), description("url")));
    let zip = directory.path().join("000.zip");
    let verify = ["archive", "--verify", "--at", "."];
    rewritten(&zip, files.clone(), |_, _| {});
    let key = ["--origin", "log.example/2020", "--log-public-key", &spki];
    for key in [&[][..], &key[..]] {
        let (code, said) = lucarne(directory.path(), &[&verify[..], key].concat());
        assert_eq!(code, 0, "{said}");
        assert_has(
            &said,
            "log.example/2020 with 3 entries and 0 issuers in 1 zip file: right",
        );
    }
    // A log of the static CT API must have the indexes.
    rewritten(&zip, files, |name, bytes| {
        if name == "log.v3.json" {
            *bytes = description("submission_url");
        }
    });
    let (code, said) = lucarne(directory.path(), &verify);
    assert_eq!(code, 1, "{said}");
    assert_has(&said, "tile/data/000.p/3: entry 0: ");
}
