use std::pin::pin;
use std::sync::LazyLock;
use std::task::{Context, Poll, Waker};

use lucarne_ct::{Chain, EntryKind, Policy, Roots, Validator};
use lucarne_mint::testing::Pki;

use super::*;

/// Chains whose issuers have keys on P-256 and P-384, which our own arithmetic supports.
static CHAINS: LazyLock<(Validator, [Chain; 2])> = LazyLock::new(|| {
    let pki = Pki::shared();
    let mut roots = Roots::new();
    roots.add(pki.root.cert_der()).unwrap();
    let validator = Validator::new(Arc::new(roots), Policy::default());
    let chains = [&pki.p256, &pki.p384].map(|ca| {
        let leaf = ca.issue(&pki.leaf("batch.example")).unwrap();
        let chain = Chain::from_ders(vec![&leaf[..], ca.cert_der()]).unwrap();
        for _ in 0..100 {
            let examined = validator.examine(&chain, EntryKind::X509, 0).unwrap();
            validator.verify(examined).unwrap();
        }
        chain
    });
    (validator, chains)
});

/// Returns a signature that has not been tried yet. Prints a note and returns `None` on a processor
/// without batches.
fn signature(curve: usize) -> Option<Arc<KnownSignature>> {
    let (validator, chains) = &*CHAINS;
    let mut examined = validator
        .examine(&chains[curve], EntryKind::X509, 0)
        .unwrap();
    let known = validator.known_signature(&mut examined);
    if known.is_none() {
        eprintln!("not tested: this processor has no AVX-512 IFMA");
    }
    known
}

fn poll<F: Future>(future: std::pin::Pin<&mut F>) -> Poll<F::Output> {
    future.poll(&mut Context::from_waker(Waker::noop()))
}

fn is_empty(batches: &Batches) -> bool {
    batches.0.lock().is_empty()
}

#[test]
fn one_alone_lets_others_go_first_once() {
    let Some(alone) = signature(0) else { return };
    let batches = Batches::default();
    let mut waits = pin!(batches.try_beside_others(&alone));
    assert_eq!(poll(waits.as_mut()), Poll::Pending);
    assert!(!alone.is_tried());
    assert_eq!(poll(waits), Poll::Ready(()));
    assert!(alone.is_tried() && is_empty(&batches));
}

#[test]
fn whoever_makes_a_batch_full_tries_it() {
    let batches = Batches::default();
    let of = |curve| (0..KnownSignature::BATCH).filter_map(move |_| signature(curve));
    let (signatures, others): (Vec<_>, Vec<_>) = (of(0).collect(), of(1).skip(1).collect());
    let Some((last, before)) = signatures.split_last() else {
        return;
    };
    // The batch of the other curve lacks one signature.
    let wait = |signature| Box::pin(batches.try_beside_others(signature));
    let mut waiting: Vec<_> = before.iter().chain(&others).map(wait).collect();
    for waits in &mut waiting {
        assert_eq!(poll(waits.as_mut()), Poll::Pending);
    }
    assert_eq!(poll(wait(last).as_mut()), Poll::Ready(()));
    assert!(signatures.iter().all(|it| it.is_tried()));
    assert!(!others.iter().any(|it| it.is_tried()));
    // The first waiting submission tries the signatures of all submissions.
    let mut waiting = waiting.split_off(before.len());
    assert_eq!(poll(waiting[0].as_mut()), Poll::Ready(()));
    assert!(others.iter().all(|it| it.is_tried()) && is_empty(&batches));
    for waits in &mut waiting[1..] {
        assert_eq!(poll(waits.as_mut()), Poll::Ready(()));
    }
}

#[test]
fn who_gives_up_takes_its_signature_along() {
    let (Some(first), Some(second)) = (signature(0), signature(0)) else {
        return;
    };
    let batches = Batches::default();
    let mut given_up = Box::pin(batches.try_beside_others(&first));
    let mut waits = pin!(batches.try_beside_others(&second));
    assert_eq!(poll(given_up.as_mut()), Poll::Pending);
    assert_eq!(poll(waits.as_mut()), Poll::Pending);
    drop(given_up);
    assert_eq!(poll(waits), Poll::Ready(()));
    assert!(second.is_tried() && !first.is_tried() && is_empty(&batches));
}

/// A panic of another thread loses its batch: waiting submissions return and try their own
/// signatures.
#[test]
fn a_batch_that_was_lost_is_waited_for_by_nobody() {
    let Some(lost) = signature(0) else { return };
    let batches = Batches::default();
    let mut waits = pin!(batches.try_beside_others(&lost));
    assert_eq!(poll(waits.as_mut()), Poll::Pending);
    let taken = std::mem::take(&mut *batches.0.lock());
    assert_eq!(poll(waits.as_mut()), Poll::Pending);
    drop(taken);
    assert_eq!(poll(waits), Poll::Ready(()));
    assert!(!lost.is_tried());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn on_several_threads_every_signature_is_tried() {
    let batches = Arc::new(Batches::default());
    let all = (0..1000).filter_map(|number| signature(usize::from(number % 3 == 0)));
    let tasks = all.map(|signature| {
        let batches = batches.clone();
        tokio::spawn(async move {
            batches.try_beside_others(&signature).await;
            assert!(signature.is_tried());
        })
    });
    for task in tasks.collect::<Vec<_>>() {
        task.await.unwrap();
    }
    assert!(is_empty(&batches));
}
