//! Trees and signed checkpoints, in a few bytes each.

/// Maximum number of entries of a tree in the model.
pub(super) const MOST: usize = 4;

/// An entry: the number of its submission, and the time of its round. Zero means absent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Leaf(u8);

const FLIPPED: u8 = 0x80;

impl Leaf {
    /// Creates an entry. `submission` is from 1 to 3, and `time` below 16.
    pub(super) fn new(submission: u8, time: u8) -> Self {
        Leaf(submission | time << 2)
    }

    /// Returns the entry after a bit of it has flipped.
    pub(super) fn flipped(self) -> Self {
        Leaf(self.0 | FLIPPED)
    }

    pub(super) fn is_flipped(self) -> bool {
        self.0 & FLIPPED != 0
    }

    pub(super) fn time(self) -> u8 {
        (self.0 & !FLIPPED) >> 2
    }

    /// Returns whether this is the entry of the submission, undamaged.
    pub(super) fn is(self, submission: u8) -> bool {
        !self.is_flipped() && self.0 & 3 == submission
    }
}

/// The entries of a tree. The lowest byte has the first entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Tree(u32);

impl Tree {
    pub(super) const EMPTY: Tree = Tree(0);

    pub(super) fn size(self) -> usize {
        MOST - self.0.leading_zeros() as usize / 8
    }

    pub(super) fn leaf(self, index: usize) -> Leaf {
        Leaf((self.0 >> (8 * index)) as u8)
    }

    pub(super) fn with(self, leaf: Leaf) -> Tree {
        Tree(self.0 | u32::from(leaf.0) << (8 * self.size()))
    }

    /// Returns the tree of the first `size` entries, or the whole tree if the tree is smaller.
    pub(super) fn first(self, size: usize) -> Tree {
        if size < MOST {
            Tree(self.0 & ((1 << (8 * size)) - 1))
        } else {
            self
        }
    }

    /// Returns whether this tree extends `other`.
    pub(super) fn goes_on_from(self, other: Tree) -> bool {
        self.first(other.size()) == other
    }

    /// Returns the index of the submission.
    pub(super) fn find(self, submission: u8) -> Option<usize> {
        (0..self.size()).find(|index| self.leaf(*index).is(submission))
    }

    /// Returns whether the tree has a submission twice.
    pub(super) fn repeats(self) -> bool {
        (1..=3).any(|submission| {
            let entries = (0..self.size()).filter(|index| self.leaf(*index).is(submission));
            entries.count() > 1
        })
    }
}

/// A signed checkpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Note {
    pub(super) tree: Tree,
    pub(super) time: u8,
}

impl Note {
    /// The checkpoint of a new log.
    pub(super) const FIRST: Note = Note {
        tree: Tree::EMPTY,
        time: 0,
    };
}
