use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{UnixListener, UnixStream};

use super::singles::{CONNECTIONS, MAX_WAITING};
use super::*;
use crate::wire::{encode_response, encode_signatures};

/// A signer that never signs single leaves, and signs everything else at once.
struct Stuck {
    place: tempfile::TempDir,
    connections: Arc<AtomicUsize>,
}

impl Stuck {
    fn start() -> Self {
        let place = tempfile::tempdir().unwrap();
        let listener = UnixListener::bind(place.path().join("socket")).unwrap();
        let connections = Arc::new(AtomicUsize::new(0));
        let accepted = connections.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                accepted.fetch_add(1, Ordering::SeqCst);
                tokio::spawn(respond(stream));
            }
        });
        Self { place, connections }
    }

    fn client(&self) -> Client {
        let key = lucarne_ct::LogKey::from_seed(&[7; 32]).unwrap();
        let spki = key.public_key_spki().to_vec();
        Client::new(&self.place.path().join("socket"), spki).unwrap()
    }
}

async fn respond(mut stream: UnixStream) {
    while let Ok(length) = stream.read_u32().await {
        let mut frame = vec![0; length as usize];
        stream.read_exact(&mut frame).await.unwrap();
        let response = match Request::decode(&frame).unwrap().wish {
            Wish::Leaf { .. } => std::future::pending().await,
            Wish::Range { leaves, .. } => {
                encode_signatures(&vec![b"signature".to_vec(); leaves.len()])
            }
            Wish::Head { .. } | Wish::Last => b"note".to_vec(),
        };
        let response = encode_response(Status::Done, &response);
        stream.write_all(&response).await.unwrap();
    }
}

fn head() -> Head {
    Head {
        size: 0,
        root: lucarne_tlog::EMPTY_ROOT,
        timestamp_ms: 1,
    }
}

/// Any number of clients submit known certificates again: tree heads and SCTs of rounds do not wait
/// for them, and excess requests are refused.
#[tokio::test]
async fn single_leaves_keep_nothing_from_rounds() {
    let stuck = Stuck::start();
    let client = Arc::new(stuck.client());
    // Requests that are being sent leave the queue, which fills again.
    let count = MAX_WAITING + 1000;
    let mut single: tokio::task::JoinSet<_> = (0..count)
        .map(|_| {
            let client = client.clone();
            async move { client.leaf(1, 0, b"leaf", Vec::new()).await }
        })
        .collect();
    let refused = single.join_next().await.unwrap().unwrap();
    assert!(
        matches!(refused, Err(ClientError::Busy { .. })),
        "{refused:?}"
    );
    for _ in 0..3 {
        assert_eq!(client.head(head(), Vec::new()).await.unwrap(), b"note");
        let hashes = [lucarne_tlog::EMPTY_ROOT; 3];
        let mut signed = 0;
        let leaf = |_| b"leaf".to_vec();
        client
            .range(&Frontier::new(), &hashes, leaf, |_, it| signed += it.len())
            .await
            .unwrap();
        assert_eq!(signed, hashes.len());
    }
    assert_eq!(stuck.connections.load(Ordering::SeqCst), CONNECTIONS + 2);
}
