//! Many reads at once, in order, as far as their bytes allow.
//!
//! A store that is far away takes its time for each read, whatever it brings:
//! reads side by side make up for it, until their bytes fill the way. Data tiles
//! have from one kilobyte to several megabytes, and how many is known once they
//! are there; what the next ones bring is taken to be what the largest of the
//! last ones brought.

use futures_util::stream::{self, FuturesOrdered, Stream, StreamExt};

/// Bytes that are read at once: what 1 Gbit/s moves in 30 ms, and a tenth of that
/// before a store counts as silent.
const AT_ONCE: usize = 4 << 20;

/// Most reads at once, however little they bring.
const MOST: usize = 64;

/// Holds what a read is taken to bring before any has been made: there are 16 at first.
const FIRST: usize = 256 << 10;

/// The results of `reads`, in order; `bytes` says how many one has brought.
///
/// Those that wait for one before them count as being read. So at most [`AT_ONCE`]
/// bytes are on the way or waiting, as long as sizes are like those before; where
/// they grow all at once, the reads that had begun, at most [`MOST`], bring more.
pub(crate) fn read_ahead<F: Future>(
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

/// Returns what is expected after one more read that brought less.
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

    /// Reads that end when the test lets them: how many bytes each will bring.
    #[derive(Default)]
    struct Store(RefCell<BTreeMap<usize, (usize, oneshot::Sender<()>)>>);

    impl Store {
        /// Read number `number`, of `bytes`.
        fn read(&self, number: usize, bytes: usize) -> impl Future<Output = (usize, usize)> {
            let (answer, answered) = oneshot::channel();
            self.0.borrow_mut().insert(number, (bytes, answer));
            async move {
                answered.await.unwrap();
                (number, bytes)
            }
        }

        /// Returns how many are under way, and their bytes.
        fn under_way(&self) -> (usize, usize) {
            let reads = self.0.borrow();
            (reads.len(), reads.values().map(|(bytes, _)| bytes).sum())
        }

        fn answer(&self, number: usize) {
            let (_, answer) = self.0.borrow_mut().remove(&number).unwrap();
            answer.send(()).unwrap();
        }
    }

    /// Returns what was under way each time that one read had to be answered, and that
    /// all came in order.
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
        // None begins before they have ended, and then one after the other.
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
        // What has come waits for the first, and is in memory as well.
        assert!(results.next().now_or_never().is_none());
        assert_eq!(store.under_way().0, 1);
        store.answer(0);
        assert_eq!(results.next().now_or_never(), Some(Some((0, 1 << 10))));
    }
}
