"""History in CSV: what is taken, what is refused by its line, and what can't be used at all."""

import gzip
import io
import zipfile

import pytest

from convoy.brain.ingest.history import import_history, open_history
from convoy.brain.ingest.history.csv_file import LONGEST_LINE
from convoy.brain.ingest.history.rows import Refusal
from convoy.core.api.errors import InvalidInput
from support.history_files import many, write_csv, write_parquet

HEADER = "job,model,strategy,workers,batch_size,worker_memory,throughput,observed_at,status,origin\n"
GOOD = "a,mlp,allreduce,1,256,1073741824,1000.5,2026-01-31T12:00:00Z,ok,a laptop\n"
SHORT = b"job,workers,throughput\n"


@pytest.fixture
def file(home):
    def write(content, name="history.csv"):
        path = home / name
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return path

    return write


def read(path):
    """Return the good rows' (job, workers, throughput), and the refusals."""
    with open_history(path) as history:
        rows = list(history.rows())
    good = [(row["job"], row["workers"], row["throughput"]) for row in rows if not isinstance(row, Refusal)]
    return good, [row for row in rows if isinstance(row, Refusal)]


@pytest.mark.parametrize(
    ("line", "reason", "words"),
    [
        ("a,mlp,allreduce,1,256,1073741824,10\n", "WrongFieldCount", "7 fields: expected 10"),
        (
            "a,mlp,gossip,1,256,,10,,,\n",
            "strategy: UnknownValue",
            "strategy is 'gossip': expected one of ps, allredu",
        ),
        ("a,mlp,allreduce,1,256,4,10,,,\n", "worker_memory: OutOfBounds", "worker_memory is 4: expected allotted"),
        ("a,mlp,allreduce,1,256,-1,10,,,\n", "worker_memory: OutOfBounds", "worker_memory is -1"),
        (
            "a,mlp,allreduce,1,256,4Gi,10,,,\n",
            "worker_memory: NotANumber",
            "worker_memory is '4Gi': expected a plain",
        ),
        ("a,mlp,allreduce,1,256,,1_000,,,\n", "throughput: NotANumber", "throughput is '1_000': expected a plain"),
        ("a,mlp,allreduce,1,256,,٣,,,\n", "throughput: NotANumber", "throughput is '٣'"),
        ("a,mlp,allreduce,1.5,256,,10,,,\n", "workers: NotWhole", "workers is 1.5: expected a whole number"),
        ("a,mlp,allreduce,0,256,,10,,,\n", "workers: OutOfBounds", "workers is 0"),
        ("a,mlp,allreduce,1,256,,nan,,,\n", "throughput: NotFinite", "throughput is nan: expected a finite number"),
        ("a,mlp,allreduce,1,256,,1e999,,,\n", "throughput: NotFinite", "throughput is 1e999"),
        ("a,mlp,allreduce,1,256,,-1,,,\n", "throughput: OutOfBounds", "throughput is -1"),
        ("a,mlp,allreduce,1,256,,0,,,\n", "throughput: OutOfBounds", "throughput is 0"),
        ("a,mlp,allreduce,1,256,,,,,\n", "throughput: Empty", "throughput is empty, and status is ok"),
        ("a,mlp,allreduce,1,256,,10,2026-01-31T12:00:00,,\n", "observed_at: NoZone", "expected a zone"),
        ("a,mlp,allreduce,1,256,,10,1769860800,,\n", "observed_at: NotAMoment", "expected ISO 8601"),
        (
            "a,mlp,allreduce,1,256,,10,1970-01-21T12:00:00Z,,\n",
            "observed_at: OutOfBounds",
            "from 2000 on, before 2100",
        ),
        ("a,mlp,allreduce,1,256,,10,0001-01-01T00:00:00+05:00,,\n", "observed_at: OutOfBounds", "from 2000 on"),
        (
            "a,mlp,allreduce,1,256,,10,,fine,\n",
            "status: UnknownValue",
            "status is 'fine': expected one of ok, failed",
        ),
        (",mlp,allreduce,1,256,,10,,,\n", "job: Empty", "job is empty"),
        (" ,mlp,allreduce,1,256,,10,,,\n", "job: Empty", "job is empty"),
        ("a,mlp,allreduce,,256,,10,,,\n", "workers: Empty", "workers is empty"),
        (f"{'a' * 256},mlp,allreduce,1,256,,10,,,\n", "job: TooLong", "job has 256 characters: expected at most 255"),
        (f"a,mlp,allreduce,1,256,,10,,,{'x' * 256}\n", "origin: TooLong", "origin has 256 characters"),
        ("a\tb,mlp,allreduce,1,256,,10,,,\n", "job: ControlCharacter", "job is 'a\\tb'"),
        ('a,"mlp,allreduce,1,256,,10,,,\n', "NotCsv", "not a line of CSV"),
        ('a,"m"lp,allreduce,1,256,,10,,,\n', "NotCsv", "not a line of CSV"),
        (b"a,ml\xe9,allreduce,1,256,,10,,,\n", "NotUtf8", "not UTF-8 (byte 0xe9); write the file in UTF-8"),
        ("a,mlp,allreduce,1,256,,10,,,x", "CutShort", "the file ends within this line"),
        (f"a,mlp,allreduce,1,256,,10,,,{'x' * LONGEST_LINE}\n", "TooLong", f"longer than {LONGEST_LINE} bytes"),
    ],
    ids=lambda value: value if isinstance(value, str) and value[-1] != "\n" and " " not in value else "",
)
def test_a_bad_line_is_refused_by_its_number_and_the_rest_is_stored(engine, file, line, reason, words):
    content = (HEADER + GOOD).encode() + (line if isinstance(line, bytes) else line.encode())
    imported = import_history(engine, file(content))
    assert imported.added == 1
    [refusal] = imported.refused.shown
    assert (refusal.place, refusal.reason) == ("history.csv line 3", reason)
    assert words in str(refusal)


def test_lines_after_a_bad_one_keep_their_numbers(file):
    lines = [
        b"a,1,10\n",
        b"b,x,10\n",
        b"\n",
        b"c,1," + b"1" * 3 * LONGEST_LINE + b"\n",
        b"d,\xff,1\n",
        b"e,2,20\n",
        b"f,3",
    ]
    good, refused = read(file(SHORT + b"".join(lines)))
    assert good == [("a", 1, 10.0), ("e", 2, 20.0)]
    assert [refusal.place for refusal in refused] == [f"history.csv line {number}" for number in (3, 5, 6, 8)]


@pytest.mark.parametrize(
    "content",
    [
        b"\xef\xbb\xbf" + SHORT + b"a,1,10\n",
        SHORT.replace(b"\n", b"\r\n") + b"a,1,10\r\n",
        b"# how it was measured\n\n# and where\n" + SHORT + b"\n  \na,1,10\n\n",
        b' throughput ,"workers", job\n 1e1 , 1 , a \n',
        b'workers,job,throughput\n1,"a",+10.0\n',
    ],
    ids=["mark", "crlf", "remarks", "spaces", "quotes"],
)
def test_what_programs_write_differently_is_the_same(file, content):
    assert read(file(content)) == ([("a", 1, 10.0)], [])


def test_quoted_fields_hold_commas_and_quotes(file):
    good, refused = read(file(SHORT + b'"a, ""b"" #",1,10\n'))
    assert (good, refused) == ([('a, "b" #', 1, 10.0)], [])


def test_a_header_without_rows_is_a_file_without_rows(file):
    assert read(file(SHORT)) == ([], [])


def test_a_gzip_that_is_cut_short_gives_what_is_before(file):
    content = gzip.compress(SHORT + b"".join(b"%d,1,10\n" % number for number in range(20_000)))
    good, refused = read(file(content[: len(content) // 2], "history.csv.gz"))
    assert 1000 < len(good) < 20_000
    assert good == [(str(number), 1, 10.0) for number in range(len(good))]
    [refusal] = refused
    assert refusal.reason == "Unreadable"
    assert refusal.place == f"history.csv.gz after line {len(good) + 1}"


def test_a_gzip_whose_middle_is_damaged_gives_what_is_before(file):
    content = bytearray(gzip.compress(SHORT + b"".join(b"%d,1,%d\n" % (n, n * n + 1) for n in range(20_000))))
    content[len(content) // 2 :] = bytes(len(content) - len(content) // 2)
    good, refused = read(file(bytes(content), "history.csv.gz"))
    assert len(good) > 1000
    assert refused[-1].reason == "Unreadable"


def zipped():
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        archive.writestr("history.csv", SHORT)
    return out.getvalue()


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (
            b"job,workers,throughput,worker_memory_gb\n",
            "line 1: unknown column 'worker_memory_gb'; did you mean worker_",
        ),
        (b"Job,workers,throughput\n", "unknown column 'Job'; did you mean job (which rows belong together)?"),
        (b"job,workers,throughput,colour\n", "unknown column 'colour'; known are job, template"),
        (b"job;workers;throughput\n", "fields are separated by commas, not by ';'"),
        (b"job\tworkers\tthroughput\n", "fields are separated by commas, not by tabs"),
        (b"# a remark\njob,workers\n", "line 2: column 'throughput' is missing (mean speed, all workers together"),
        (b"job,workers,throughput,job\n", "column 'job' stands twice"),
        (b'job,"workers,throughput\n', "line 1: unexpected end of data"),
        (b"", "empty; expected a header line and rows"),
        (b"# only remarks\n\n", "empty"),
        (b"job,workers,throughput,m\xe9moire\n", "line 1: not UTF-8 (byte 0xe9)"),
        ("job,workers,throughput\n".encode("utf-16"), "it is in UTF-16; write it in UTF-8"),
        (b"job,workers,throughput\ra,1,10\r", "lines end in CR alone"),
        (gzip.compress(SHORT), "it is compressed by gzip; name it .csv.gz"),
        (b"PAR1" + bytes(100), "it is a Parquet file; name it .parquet"),
        (zipped(), "it is a workbook or a zip archive; save it as CSV"),
        (bytes(2 * LONGEST_LINE), "line 1: the line is longer than"),
    ],
    ids=lambda value: "" if isinstance(value, bytes) else value,  # gzip and zip hold the time
)
def test_a_file_that_cannot_be_read_at_all_is_refused_whole(file, content, words):
    with pytest.raises(InvalidInput) as caught:
        open_history(file(content))
    assert words in str(caught.value)
    assert "history.csv" in str(caught.value)


@pytest.mark.parametrize("content", [SHORT, gzip.compress(SHORT)[:12]], ids=["plain", "cut short"])
def test_what_is_no_gzip_is_refused_whole(file, content):
    with pytest.raises(InvalidInput, match=r"history\.csv\.gz: .*; write the file anew"):
        open_history(file(content, "history.csv.gz"))


def test_what_is_no_file_is_refused(home):
    with pytest.raises(InvalidInput, match=r"none\.csv: No such file or directory"):
        open_history(home / "none.csv")
    (home / "folder.csv").mkdir()
    with pytest.raises(InvalidInput, match=r"folder\.csv: not a file"):
        open_history(home / "folder.csv")
    with pytest.raises(InvalidInput, match=r"says no format; expected one that ends in \.csv, \.csv\.gz, \.parquet"):
        open_history(write_csv(home / "history.txt", many(1)))


def test_the_ending_may_be_in_capitals(home):
    assert len(read(write_csv(home / "A.CSV", many(3)))[0]) == 3
    assert len(read(write_csv(home / "A.csv.gz", many(3)).rename(home / "A.CSV.GZ"))[0]) == 3
    assert len(read(write_parquet(home / "A.PQ", many(3)))[0]) == 3
