//! Concurrent reads in order, bounded by their bytes.
//!
//! Each read from a remote store has a latency that does not depend on the size of the response.
//! Concurrent reads hide this latency until they use the whole bandwidth. Data tiles have from one
//! kilobyte to several megabytes, and the size is known only after the read. The next reads are
//! therefore expected to be as large as the largest recent read.

use futures_util::stream::{self, FuturesOrdered, Stream, StreamExt};

/// Bytes that are read concurrently: 1 Gbit/s transfers them in about 30 ms, and a tenth of that
/// rate still transfers them before a store counts as unresponsive.
const AT_ONCE: usize = 4 << 20;

/// Maximum number of concurrent reads, however small they are.
const MOST: usize = 64;

/// Expected bytes of a read before the first result: 16 reads begin.
const FIRST: usize = 256 << 10;

/// Returns the results of `reads`, in order. `bytes` returns the size of a result.
///
/// A finished read that waits for an earlier read counts as in flight. If sizes stay similar, at
/// most 4 MiB are therefore in flight or waiting. If sizes grow suddenly, the reads in flight, at
/// most 64, exceed that bound.
pub fn read_ahead<F: Future>(
    reads: impl Iterator<Item = F>,
    bytes: impl Fn(&F::Output) -> usize,
) -> impl Stream<Item = F::Output> {
    let state = (FuturesOrdered::new(), FIRST, reads, bytes);
    stream::unfold(
        state,
        async |(mut under_way, expected, mut reads, bytes)| {
            let most = (AT_ONCE / expected).clamp(1, MOST);
            under_way.extend(reads.by_ref().take(most.saturating_sub(under_way.len())));
            let read = under_way.next().await?;
            let expected = bytes(&read).max(forgotten(expected));
            Some((read, (under_way, expected, reads, bytes)))
        },
    )
}

/// Returns the expected size after one more, smaller read.
fn forgotten(expected: usize) -> usize {
    (expected - expected / 16).max(1)
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;
    use std::collections::BTreeMap;

    use futures_util::{FutureExt, pin_mut};
    use tokio::sync::oneshot;

    use super::*;

    /// Reads that end when the test completes them, with the bytes of each.
    #[derive(Default)]
    struct Store(RefCell<BTreeMap<usize, (usize, oneshot::Sender<()>)>>);

    impl Store {
        /// Begins read number `number`, of `bytes`.
        fn read(&self, number: usize, bytes: usize) -> impl Future<Output = (usize, usize)> {
            let (answer, answered) = oneshot::channel();
            self.0.borrow_mut().insert(number, (bytes, answer));
            async move {
                answered.await.unwrap();
                (number, bytes)
            }
        }

        /// Returns the number of reads in flight, and their bytes.
        fn under_way(&self) -> (usize, usize) {
            let reads = self.0.borrow();
            (reads.len(), reads.values().map(|(bytes, _)| bytes).sum())
        }

        fn answer(&self, number: usize) {
            let (_, answer) = self.0.borrow_mut().remove(&number).unwrap();
            answer.send(()).unwrap();
        }
    }

    /// Completes the reads one by one, checks that the results are in order, and returns the reads
    /// in flight before each.
    fn observed(sizes: &[usize]) -> Vec<(usize, usize)> {
        let (store, mut seen) = (Store::default(), Vec::new());
        let reads = (0..).zip(sizes).map(|(n, size)| store.read(n, *size));
        let results = read_ahead(reads, |(_, bytes)| *bytes);
        pin_mut!(results);
        for (number, size) in sizes.iter().enumerate() {
            assert!(
                results.next().now_or_never().is_none(),
                "nothing was answered"
            );
            seen.push(store.under_way());
            store.answer(number);
            let read = results.next().now_or_never().unwrap();
            assert_eq!(read, Some((number, *size)));
        }
        assert_eq!(results.next().now_or_never(), Some(None));
        seen
    }

    #[test]
    fn small_reads_are_many_and_large_ones_few() {
        for (bytes, most) in [(1 << 10, MOST), (83 << 10, 49), (1 << 20, 4), (3 << 20, 1)] {
            let seen = observed(&vec![bytes; 400]);
            let at_its_most = seen.iter().map(|(reads, _)| *reads).max().unwrap();
            let settled = &seen[200..300];
            assert!(settled.iter().all(|(reads, _)| *reads == most), "{seen:?}");
            assert_eq!(at_its_most, most.max(16), "{bytes} bytes each");
            assert!(settled.iter().all(|(_, bytes)| *bytes <= AT_ONCE));
        }
    }

    #[test]
    fn where_reads_grow_only_those_that_had_begun_bring_more() {
        let small = vec![10 << 10; 100];
        let grown = [small, vec![2 * AT_ONCE; 200]].concat();
        let seen = observed(&grown);
        assert_eq!(seen[99].0, MOST);
        // No read begins before the reads in flight have ended; then one read begins at a time.
        for (n, (reads, _)) in seen[100..].iter().enumerate() {
            assert_eq!(*reads, MOST.saturating_sub(n).max(1), "{n} after they grew");
        }
    }

    #[test]
    fn one_large_read_among_small_ones_is_forgotten() {
        let mut sizes = vec![10 << 10; 400];
        sizes[100] = AT_ONCE;
        let seen = observed(&sizes);
        let fewest = seen[100..].iter().map(|(reads, _)| *reads).min();
        assert!(fewest < Some(MOST / 2), "{seen:?}");
        assert_eq!(seen[300].0, MOST);
    }

    #[test]
    fn a_read_that_hangs_lets_no_more_begin_than_may_be_at_once() {
        let store = Store::default();
        let reads = (0..1000).map(|n| store.read(n, 1 << 10));
        let results = read_ahead(reads, |(_, bytes)| *bytes);
        pin_mut!(results);
        assert!(results.next().now_or_never().is_none());
        let (begun, _) = store.under_way();
        (1..begun).for_each(|number| store.answer(number));
        // Finished reads wait for the first read, and are in memory as well.
        assert!(results.next().now_or_never().is_none());
        assert_eq!(store.under_way().0, 1);
        store.answer(0);
        assert_eq!(results.next().now_or_never(), Some(Some((0, 1 << 10))));
    }
}
