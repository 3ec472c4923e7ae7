use lucarne_ct::LogKey;
use lucarne_tlog::EMPTY_ROOT;

use super::*;
use crate::guard::Head;
use crate::memory::MemoryDirectory;
use crate::wire::{decode_response, decode_signatures};

const ORIGIN: &str = "log.example/2026h2";

struct Signer {
    place: tempfile::TempDir,
    log_id: LogId,
}

impl Signer {
    /// Starts a signer of a new log for these users.
    fn start(users: Vec<u32>) -> Self {
        let place = tempfile::tempdir().unwrap();
        let directory = MemoryDirectory::open(&place.path().join("memory")).unwrap();
        let key = LogKey::from_seed(&[7; 32]).unwrap();
        let log_id = key.log_id();
        let memory = directory.of(ORIGIN, &key);
        memory.first_use().unwrap();
        let log = SigningLog::open(ORIGIN, Box::new(key), &directory).unwrap();
        let socket = place.path().join("socket");
        let server = Server::bind(&socket, directory, vec![log], users).unwrap();
        std::thread::spawn(move || server.run());
        Self { place, log_id }
    }

    fn connect(&self) -> UnixStream {
        UnixStream::connect(self.place.path().join("socket")).unwrap()
    }

    fn request<'a>(&self, wish: Wish<'a>) -> Request<'a> {
        let log_id = self.log_id;
        Request { log_id, wish }
    }
}

fn myself() -> u32 {
    rustix::process::geteuid().as_raw()
}

fn response(stream: &mut UnixStream) -> io::Result<Vec<u8>> {
    let mut length = [0; 4];
    stream.read_exact(&mut length)?;
    let mut frame = vec![0; u32::from_be_bytes(length) as usize];
    stream.read_exact(&mut frame)?;
    Ok(frame)
}

fn asked(stream: &mut UnixStream, frame: &[u8]) -> (Status, Vec<u8>) {
    stream.write_all(frame).unwrap();
    let frame = response(stream).unwrap();
    let (status, rest) = decode_response(&frame).unwrap();
    (status, rest.to_vec())
}

#[test]
fn heads_and_scts_over_the_socket() {
    let signer = Signer::start(vec![myself()]);
    let mut stream = signer.connect();
    let (status, note) = asked(&mut stream, &signer.request(Wish::Last).encode());
    assert_eq!((status, note.len()), (Status::Done, 0));
    let entry = lucarne_ct::SignedEntry::X509 {
        certificate: bytes::Bytes::from_static(b"a certificate"),
    };
    let mut leaf = Vec::new();
    let timestamp_ms = now_ms();
    lucarne_ct::merkle_tree_leaf(timestamp_ms, &entry, 0, &mut leaf);
    let head = |size, root, later| Wish::Head {
        head: Head {
            size,
            root,
            timestamp_ms: timestamp_ms + later,
        },
        proof: Vec::new(),
    };
    let promise = Wish::Leaf {
        size: 1,
        index: 0,
        proof: Vec::new(),
        leaf: &leaf,
    };
    let promise = signer.request(promise).encode();
    let (status, _) = asked(&mut stream, &promise);
    assert_eq!(status, Status::UnknownTree);
    for (wish, expected) in [
        (head(0, EMPTY_ROOT, 0), Status::Done),
        (head(1, lucarne_tlog::leaf_hash(&leaf), 1), Status::Done),
        // The same request again, as after a lost response.
        (head(1, lucarne_tlog::leaf_hash(&leaf), 1), Status::Done),
        (head(0, EMPTY_ROOT, 2), Status::Refused),
        (head(1, EMPTY_ROOT, 2), Status::Refused),
    ] {
        let (status, text) = asked(&mut stream, &signer.request(wish).encode());
        let text = String::from_utf8_lossy(&text);
        assert_eq!(status, expected, "{text}");
    }
    let (status, signatures) = asked(&mut stream, &promise);
    assert_eq!(status, Status::Done);
    let signature = decode_signatures(&signatures).unwrap().swap_remove(0);
    let key = LogKey::from_seed(&[7; 32]).unwrap();
    let sct = lucarne_ct::Sct::signed(signer.log_id, timestamp_ms, 0, signature);
    sct.verify(&key.public_key().unwrap(), &entry).unwrap();
}

#[test]
fn others_are_not_answered() {
    let signer = Signer::start(vec![myself() + 1]);
    let mut stream = signer.connect();
    let _ = stream.write_all(&signer.request(Wish::Last).encode());
    assert!(response(&mut stream).is_err());
}

#[test]
fn garbage_is_answered_or_cut_off() {
    let signer = Signer::start(vec![myself()]);
    let mut stream = signer.connect();
    let whole = signer.request(Wish::Last).encode();
    for damage in [4, 5, 6] {
        let mut other = whole.clone();
        other[damage] ^= 0x40;
        assert_eq!(asked(&mut stream, &other).0, Status::BadRequest);
    }
    // The connection still works.
    assert_eq!(asked(&mut stream, &whole).0, Status::Done);
    stream.write_all(&[0xff; 4]).unwrap();
    assert!(response(&mut stream).is_err(), "a frame of 4 GiB");
}

#[test]
fn slow_and_many_peers_do_not_keep_it_from_others() {
    let signer = Signer::start(vec![myself()]);
    let whole = signer.request(Wish::Last).encode();
    let started = Instant::now();
    let mut slow: Vec<UnixStream> = (0..CONNECTIONS_PER_LOG - 1)
        .map(|_| signer.connect())
        .collect();
    for stream in &mut slow {
        stream.write_all(&whole[..7]).unwrap();
    }
    let mut other = signer.connect();
    assert_eq!(asked(&mut other, &whole).0, Status::Done);
    // One connection too many gets no response.
    let mut last = signer.connect();
    let _ = last.write_all(&whole);
    // On a busy machine one of the slow connections may have been closed already.
    assert!(response(&mut last).is_err() || started.elapsed() >= EXCHANGE_TIMEOUT);
    // A client that does not complete its request is disconnected.
    let guard = Some(Duration::from_secs(60));
    slow[0].set_read_timeout(guard).unwrap();
    let cut = response(&mut slow[0]).unwrap_err().kind();
    assert!(
        matches!(
            cut,
            io::ErrorKind::UnexpectedEof | io::ErrorKind::ConnectionReset
        ),
        "{cut}"
    );
}

#[test]
fn a_directory_that_all_users_can_change_is_reported() {
    let place = tempfile::tempdir().unwrap();
    let socket = place.path().join("socket");
    for (mode, expected) in [(0o777, Some(0o777)), (0o1777, None), (0o755, None)] {
        fs::set_permissions(place.path(), fs::Permissions::from_mode(mode)).unwrap();
        assert_eq!(replaceable(&socket), expected, "{mode:o}");
    }
}
