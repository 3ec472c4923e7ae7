//! The store on disk: modes, verification of files, failures of the disk.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use lucarne_mint::store::{
    CertificateStore, DiskOptions, DiskStore, MintOptions, Minter, StoreOptions,
};
use lucarne_mint::{Authority, KeyPair, KeyType, pem};

use super::support::{DAY, EVENT_TIMEOUT, Hands, ca, host, new_ca, until};

struct Home {
    _directory: tempfile::TempDir,
    path: PathBuf,
    hands: Hands,
}

impl Home {
    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        Home {
            path: directory.path().join("store"),
            _directory: directory,
            hands: Hands::default(),
        }
    }

    fn options(&self) -> DiskOptions {
        DiskOptions {
            store: StoreOptions {
                clock: self.hands.clock(),
                ..StoreOptions::default()
            },
            ..DiskOptions::default()
        }
    }

    fn store(&self) -> Arc<DiskStore> {
        Arc::new(DiskStore::open(&self.path, self.options()).unwrap())
    }

    fn minter(&self, store: Arc<DiskStore>) -> Minter {
        self.minter_of(ca(), store)
    }

    fn minter_of(&self, ca: Authority, store: Arc<DiskStore>) -> Minter {
        let options = MintOptions {
            clock: self.hands.clock(),
            ..MintOptions::default()
        };
        Minter::new(ca, store, options).unwrap()
    }

    /// Returns the files of certificates.
    fn files(&self) -> Vec<PathBuf> {
        files(&self.path)
            .into_iter()
            .filter(|path| path.extension().is_some_and(|ending| ending == "pem"))
            .collect()
    }
}

fn files(directory: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(files(&path));
        } else {
            found.push(path);
        }
    }
    found
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o777
}

#[tokio::test]
async fn only_the_owner_can_read_it() {
    let home = Home::new();
    let minter = home.minter(home.store());
    minter.certificate(&host("a.example")).await.unwrap();
    assert_eq!(mode(&home.path), 0o700);
    let all = files(&home.path);
    assert!(all.len() >= 2, "a certificate and a lock");
    for file in all {
        assert_eq!(mode(&file), 0o600, "{}", file.display());
        assert_eq!(mode(file.parent().unwrap()), 0o700);
    }
    // A directory that others can read is refused.
    fs::set_permissions(&home.path, fs::Permissions::from_mode(0o755)).unwrap();
    let refused = DiskStore::open(&home.path, home.options()).unwrap_err();
    assert!(refused.to_string().contains("chmod 700"), "{refused}");
}

#[tokio::test]
async fn what_was_made_is_found_again() {
    let home = Home::new();
    let names = ["www.example.com", "192.0.2.1", "bücher.example"];
    for round in 0..2 {
        let minter = home.minter(home.store());
        for name in names {
            minter.certificate(&host(name)).await.unwrap();
        }
        let stats = minter.stats();
        let (made, found) = if round == 0 { (3, 0) } else { (0, 3) };
        assert_eq!((stats.generated, stats.disk_hits), (made, found));
        assert_eq!(stats.disk_errors, 0);
    }
    assert_eq!(home.files().len(), 3);
}

/// Replaces a certificate's file by `content`, and checks that it is recreated.
async fn is_made_anew(home: &Home, content: &[u8], why: &str) {
    let store = home.store();
    let minter = home.minter(store.clone());
    fs::write(&home.files()[0], content).unwrap();
    let minted = minter.certificate(&host("a.example")).await.unwrap();
    let stats = store.stats();
    assert_eq!(
        (stats.generated, stats.disk_errors),
        (1, 1),
        "{why}: {stats:?}"
    );
    // The new file is valid.
    let again = minter.certificate(&host("a.example")).await.unwrap();
    assert_eq!(again.serial, minted.serial, "{why}");
    assert_eq!(store.stats().disk_hits, 1, "{why}");
}

#[tokio::test]
async fn what_is_wrong_on_disk_is_made_anew() {
    let home = Home::new();
    let minter = home.minter(home.store());
    minter.certificate(&host("a.example")).await.unwrap();
    let file = home.files().remove(0);
    let good = fs::read_to_string(&file).unwrap();

    // Certificates of another host, of another CA, and with another key.
    minter.certificate(&host("b.example")).await.unwrap();
    let other = home.files().into_iter().find(|path| *path != file).unwrap();
    let other_host = fs::read(&other).unwrap();
    fs::remove_file(other).unwrap();
    let stranger = home.minter_of(new_ca(), home.store());
    stranger.certificate(&host("a.example")).await.unwrap();
    let other = home.files().into_iter().find(|path| *path != file).unwrap();
    let other_ca = fs::read_to_string(&other).unwrap();
    fs::remove_dir_all(other.parent().unwrap()).unwrap();
    let key = KeyPair::generate(KeyType::EcdsaP256)
        .unwrap()
        .to_pkcs8()
        .unwrap();
    let certificates = &good[good.find("-----BEGIN CERTIFICATE").unwrap()..];
    let other_key = pem::encode("PRIVATE KEY", &key) + certificates;

    // The true CA with a leaf that it did not sign.
    let own_ca = pem::encode("CERTIFICATE", ca().cert_der());
    let forged = &other_ca[..other_ca.rfind("-----BEGIN CERTIFICATE").unwrap()];
    let forged = forged.to_owned() + &own_ca;
    let unsigned = good.replace(certificates, "");

    for (content, why) in [
        (&b""[..], "empty"),
        (&good.as_bytes()[..good.len() / 2], "torn"),
        (b"\xff\xfe\0\0", "no text"),
        (&other_host, "another host's"),
        (other_ca.as_bytes(), "another CA's"),
        (other_key.as_bytes(), "another key"),
        (forged.as_bytes(), "not signed by the CA"),
        (unsigned.as_bytes(), "no certificate"),
    ] {
        is_made_anew(&home, content, why).await;
    }
}

#[tokio::test]
async fn what_has_ended_is_made_anew_and_swept() {
    let home = Home::new();
    let store = home.store();
    let minter = home.minter(store.clone());
    let first = minter.certificate(&host("a.example")).await.unwrap();
    minter.certificate(&host("b.example")).await.unwrap();
    home.hands.advance(31 * DAY);
    let second = minter.certificate(&host("a.example")).await.unwrap();
    assert_ne!(first.serial, second.serial);
    assert_eq!(store.stats().disk_errors, 0, "to end is no error");
    assert_eq!(home.files().len(), 2);
    store.sweep();
    assert_eq!(home.files().len(), 1, "b.example is gone");
    let found = minter.certificate(&host("a.example")).await.unwrap();
    assert_eq!(found.serial, second.serial);
}

#[tokio::test]
async fn a_successor_is_made_ahead_of_time() {
    let home = Home::new();
    let store = home.store();
    let minter = home.minter(store.clone());
    let first = minter.certificate(&host("a.example")).await.unwrap();
    home.hands.advance(29 * DAY);
    let meanwhile = minter.certificate(&host("a.example")).await.unwrap();
    assert_eq!(first.serial, meanwhile.serial);
    until(|| store.stats().refreshed == 1).await;
    let mut next = first.serial.clone();
    let deadline = std::time::Instant::now() + EVENT_TIMEOUT;
    while next == first.serial && std::time::Instant::now() < deadline {
        next = minter
            .certificate(&host("a.example"))
            .await
            .unwrap()
            .serial
            .clone();
        // Polls until a deadline, because the successor is counted a moment before its file exists.
        tokio::time::sleep(std::time::Duration::from_millis(5)).await;
    }
    assert_ne!(next, first.serial);
    assert_eq!(store.stats().generated, 2);
}

#[tokio::test]
async fn files_are_bounded() {
    let home = Home::new();
    let options = DiskOptions {
        max_files: 20,
        ..home.options()
    };
    let store = Arc::new(DiskStore::open(&home.path, options).unwrap());
    let minter = home.minter(store.clone());
    for number in 0..40 {
        let name = host(&format!("host-{number}.example"));
        minter.certificate(&name).await.unwrap();
        home.hands.advance(DAY / 24);
    }
    store.sweep();
    assert_eq!(home.files().len(), 18);
    assert_eq!(store.stats().evicted, 22);
    // The newest certificates are left.
    minter.certificate(&host("host-39.example")).await.unwrap();
    assert_eq!(store.stats().disk_hits, 1);
}

#[tokio::test]
async fn a_file_that_is_being_written_is_not_evicted() {
    let home = Home::new();
    let options = DiskOptions {
        max_files: 1,
        ..home.options()
    };
    let store = Arc::new(DiskStore::open(&home.path, options).unwrap());
    let minter = home.minter(store.clone());
    minter.certificate(&host("a.example")).await.unwrap();
    minter.certificate(&host("b.example")).await.unwrap();
    let unfinished = home.files()[0].with_file_name("unfinished-1-0");
    fs::write(&unfinished, "half").unwrap();
    // Before the rename, the file already has the end of validity as its modification time.
    let file = fs::File::options().write(true).open(&unfinished).unwrap();
    file.set_modified(SystemTime::now() + 30 * DAY).unwrap();
    store.sweep();
    assert!(unfinished.exists());
    assert_eq!(store.stats().evicted, 1);
    home.hands.advance(DAY);
    store.sweep();
    assert!(!unfinished.exists());
    assert_eq!(store.stats().evicted, 1);
}

#[tokio::test]
async fn a_disk_that_fails_is_said_and_does_without() {
    let home = Home::new();
    let store = home.store();
    let minter = home.minter(store.clone());
    minter.certificate(&host("a.example")).await.unwrap();
    assert_eq!(store.problem(), None);

    // The directory is replaced by a file, because a mode would not stop root.
    let aside = home.path.with_extension("aside");
    fs::rename(&home.path, &aside).unwrap();
    fs::write(&home.path, "not a directory").unwrap();
    let first = minter.certificate(&host("b.example")).await.unwrap();
    let second = minter.certificate(&host("b.example")).await.unwrap();
    assert_ne!(first.serial, second.serial, "served, but not stored");
    let problem = store.problem().unwrap();
    let path = home.path.display().to_string();
    assert!(problem.contains(&path), "{problem}");
    let stats = store.stats();
    assert_eq!((stats.generated, stats.errors), (3, 0));
    assert!(stats.disk_errors >= 2);

    // When the disk works again, the store finds the old files and stores new certificates.
    fs::remove_file(&home.path).unwrap();
    fs::rename(&aside, &home.path).unwrap();
    minter.certificate(&host("a.example")).await.unwrap();
    minter.certificate(&host("b.example")).await.unwrap();
    assert_eq!(store.problem(), None);
    assert_eq!(home.files().len(), 2);
    assert_eq!(store.stats().disk_hits, 1);
}

#[tokio::test]
async fn a_directory_that_cannot_be_made_is_named() {
    let home = Home::new();
    fs::write(&home.path, "not a directory").unwrap();
    let refused = DiskStore::open(&home.path, home.options()).unwrap_err();
    let path = home.path.display().to_string();
    assert!(refused.to_string().contains(&path), "{refused}");
}

/// `locks` is replaced by a file, because a mode would not stop root.
#[tokio::test]
async fn a_directory_that_cannot_be_written_to_is_used_as_it_is() {
    let home = Home::new();
    let minter = home.minter(home.store());
    let kept = minter.certificate(&host("a.example")).await.unwrap();
    fs::remove_dir_all(home.path.join("locks")).unwrap();
    fs::write(home.path.join("locks"), "not a directory").unwrap();

    let store = home.store();
    let problem = store.problem().unwrap();
    assert!(problem.contains("locks"), "{problem}");
    let minter = home.minter(store.clone());
    let found = minter.certificate(&host("a.example")).await.unwrap();
    assert_eq!(found.serial, kept.serial);
    minter.certificate(&host("b.example")).await.unwrap();
    assert_eq!(store.stats().generated, 1);
}

/// Entries in the store that are not regular files neither block the store nor remain unmentioned.
#[tokio::test]
async fn only_regular_files_are_opened() {
    let home = Home::new();
    let store = home.store();
    let minter = home.minter(store.clone());
    minter.certificate(&host("a.example")).await.unwrap();
    let file = home.files().remove(0);
    let within = async |minter: &Minter| {
        let name = host("a.example");
        let fetched = tokio::time::timeout(EVENT_TIMEOUT, minter.certificate(&name)).await;
        fetched.expect("the store does not wait").unwrap();
    };
    fs::remove_file(&file).unwrap();
    fs::create_dir(&file).unwrap();
    within(&minter).await;
    let problem = store.problem().unwrap();
    assert!(problem.contains(&file.display().to_string()), "{problem}");

    fs::remove_dir(&file).unwrap();
    fifo(&file);
    store.sweep();
    assert!(file.exists(), "the sweep ignores the FIFO");
    // The certificate replaces the FIFO.
    within(&minter).await;
    assert_eq!(store.problem(), None);
    assert!(fs::symlink_metadata(&file).unwrap().is_file());

    let lock = home.path.join("locks").join("00");
    let _ = fs::remove_file(&lock); // the first certificate may have another lock
    fifo(&lock);
    let problem = home.store().problem().unwrap();
    let told = "locks/00: expected a regular file, found a FIFO: remove the FIFO";
    assert!(problem.ends_with(told), "{problem}");
}

fn fifo(path: &Path) {
    let made = std::process::Command::new("mkfifo").arg(path).status();
    assert!(made.unwrap().success());
}

/// `cp -r` sets the modification time of files to the time of the copy.
#[tokio::test]
async fn a_copied_certificate_outlives_the_sweep() {
    let home = Home::new();
    let minter = home.minter(home.store());
    let kept = minter.certificate(&host("a.example")).await.unwrap();
    let touch = |when| {
        let file = fs::File::options()
            .write(true)
            .open(&home.files()[0])
            .unwrap();
        file.set_modified(when).unwrap();
    };
    let now = std::time::SystemTime::now();
    touch(now - DAY);

    let store = home.store();
    store.sweep();
    assert_eq!(home.files().len(), 1, "its certificate has not ended");
    let modified = fs::metadata(&home.files()[0]).unwrap().modified().unwrap();
    assert_eq!(modified, kept.not_after, "read once");
    let minter = home.minter(store.clone());
    let found = minter.certificate(&host("a.example")).await.unwrap();
    assert_eq!(found.serial, kept.serial);
    touch(now - DAY);
    home.hands.advance(31 * DAY);
    store.sweep();
    assert_eq!(home.files().len(), 0);
}
