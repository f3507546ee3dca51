"""The fabric chapter on campaigns made by hand, and on the shipped one."""

from pathlib import Path

import pytest
import small
from wires import campaign, runs, samples

from servebook.publish import words
from servebook.publish.chapters import fabric
from servebook.publish.display import payload
from servebook.publish.output import Figure, Section, Statement
from servebook.publish.spec import specification

LOOPBACK = Path(__file__).parents[3] / "data" / "loopback"
CELLS = [getattr(fabric, name) for name in fabric.__all__]
FIGURES = [c for c in CELLS if c.__annotations__["return"] == "Figure"]

PHASES = [("pre", "one", "prefill", 20, 60), ("dec", "one", "decode", 80, 120)]


def busy(low, prefill, decode):
    """Bytes/s over time: prefill in [20, 60), decode in [80, 120), else low."""
    return lambda i: prefill if 20 <= i < 60 else decode if 80 <= i < 120 else low


def one_port(tmp_path, *, speed=None, **how):
    links = {
        ("leaf", "e1", "tx"): busy(1000, 5_000_000, 2_000_000),
        ("leaf", "e1", "rx"): busy(1000, 2_500_000, 1_000_000),
    }
    port = {"device": "leaf", "interface": "e1", "role": "uplink", "node": "n1"}
    ports = [port | ({"speed_gbps": speed} if speed else {})]
    return campaign(tmp_path, runs(*PHASES), [samples(links, 140, **how)], ports)


def two_nodes(tmp_path, seconds=140):
    """Two servers of 16 ports of 1 Gbit/s each; port 7 of the second carries three times more."""
    links, ports = {}, []
    for node in ("n1", "n2"):
        for port in range(16):
            times = 3 if (node, port) == ("n2", 7) else 1
            name = f"{node}-e{port}"
            for direction in ("rx", "tx"):
                links["leaf", name, direction] = busy(100, 10_000_000 * times, 4_000_000 * times)
            ports.append(
                {
                    "device": "leaf",
                    "interface": name,
                    "speed_gbps": 1,
                    "role": "uplink",
                    "node": node,
                    "rail": port,
                }
            )
    phases = [("pre", "two", "prefill", 20, 60), ("dec", "two", "decode", 80, 120)]
    return campaign(tmp_path, runs(*phases), [samples(links, seconds)], ports)


def shown(output):
    """What the page would hold of it: fails where something needed is absent."""
    kind, fields = payload(output)
    if isinstance(output, Figure) and output.chart is not None:
        specification(output.chart, output.alt)
    return kind, fields


def column(figure, start):
    return next(figure.table[c] for c in figure.table if c.startswith(start))


@pytest.fixture(scope="module")
def loopback():
    return small.loopback()


@pytest.fixture(scope="module")
def rails(tmp_path_factory):
    return two_nodes(tmp_path_factory.mktemp("rails"))


@pytest.fixture(scope="module")
def bare(tmp_path_factory):
    return campaign(tmp_path_factory.mktemp("bare"), runs(*PHASES))


@pytest.fixture(scope="module")
def broken(tmp_path_factory):
    folder = tmp_path_factory.mktemp("broken")
    return one_port(folder, speed=0.1, reset_at=40, silent=range(90, 100))


@pytest.fixture(scope="module")
def elsewhere(tmp_path_factory):
    links = {("leaf", "e1", "tx"): lambda _: 1000.0}
    counters = samples(links, 50, start=90_000)
    return campaign(tmp_path_factory.mktemp("elsewhere"), runs(*PHASES), [counters])


@pytest.mark.parametrize("cell", CELLS)
def test_every_cell_shows_the_shipped_campaign(loopback, cell):
    kind, fields = shown(cell(loopback))
    assert kind in ("figure", "statement", "section")
    assert str(LOOPBACK.parent) not in str(fields)


@pytest.mark.parametrize("cell", CELLS)
def test_without_counters_every_cell_says_so(bare, cell):
    output = cell(bare)
    shown(output)
    if isinstance(output, Figure):
        assert output.chart is None
        assert "no byte counters" in output.missing
    elif isinstance(output, Statement):
        assert "not known" in output.sentence
        assert not output.verdict
        assert output.value is None
    else:
        assert isinstance(output, Section)
        assert "None of the 2 runs has counters" in output.paragraphs[0]


@pytest.mark.parametrize("cell", CELLS)
def test_a_reset_and_a_gap_break_nothing(broken, cell):
    shown(cell(broken))


@pytest.mark.parametrize("cell", CELLS)
def test_two_nodes_of_sixteen_ports(rails, cell):
    _, fields = shown(cell(rails))
    assert fields.get("missing", "") == "" or cell is fabric.agree


@pytest.mark.parametrize("cell", CELLS)
def test_counters_of_another_day_break_nothing(elsewhere, cell):
    shown(cell(elsewhere))


def test_use_is_bytes_over_time_and_speed(tmp_path):
    got = fabric.link_use(one_port(tmp_path, speed=0.1))
    # 5 MB/s are 40 Mbit/s of 100 Mbit/s; 2 MB/s are 16 %. The busier direction counts.
    assert got.table["Workload"].tolist() == ["prefill", "decode"]
    assert column(got, "Usual").tolist() == pytest.approx([40, 16])
    assert column(got, "Peak").tolist() == pytest.approx([40, 16])
    assert column(got, "Window").tolist() == pytest.approx([1, 1])
    assert "16 % to 40 %" in got.title


def test_without_a_speed_rates_and_no_percent(tmp_path):
    book = one_port(tmp_path)
    got = fabric.link_use(book)
    assert column(got, "Usual (Mbit/s)").tolist() == pytest.approx([40, 16])
    assert "No speed is stated" in got.subtitle
    assert "%" not in got.title
    assert "Mbit/s" in fabric.peak(book).sentence
    assert "not known without a speed" in fabric.hidden(book).title
    spec = str(specification(fabric.over_time(book).chart))
    assert "% of line rate" not in spec


def test_the_note_on_a_nominal_speed_is_told(loopback):
    note = "loopback has no link speed"
    for cell in (fabric.watched, fabric.over_time, fabric.link_use):
        assert note in cell(loopback).subtitle
    assert note in fabric.peak(loopback).sentence


def test_peak_names_the_run_and_its_window(tmp_path):
    got = fabric.peak(one_port(tmp_path, speed=0.1))
    assert got.value == pytest.approx(40)
    assert got.runs == ("pre",)
    assert (got.low, got.high) == (None, None)
    assert "(prefill on one node, 1 request in flight)" in got.sentence
    assert "40 % of 100 Mbit/s over 1 s" in got.sentence
    assert got.verdict


def test_bytes_per_token_net_of_idle(tmp_path):
    got = fabric.bytes_per_token(one_port(tmp_path))
    rows = got.table[got.table["Direction"] == "out"].set_index("Run")
    # 40 s at 5 MB/s over 10 x 100 input tokens; idle is 1 kB/s.
    assert rows.loc["pre", "Gross (B/token)"] == pytest.approx(200_000)
    assert rows.loc["pre", "Net of idle (B/token)"] == pytest.approx(200_000 - 40)
    # 40 s at 2 MB/s over 10 x 50 output tokens.
    assert rows.loc["dec", "Gross (B/token)"] == pytest.approx(160_000)
    assert rows.loc["dec", "Net of idle (B/token)"] == pytest.approx(160_000 - 80)


def test_the_cost_as_a_sentence(tmp_path):
    got = fabric.cost(one_port(tmp_path))
    assert got.value == pytest.approx((160_000 - 80) / (200_000 - 40))
    assert got.n == 2
    # One run of each kind: the range over pairs is the ratio itself.
    assert (got.low, got.high) == (pytest.approx(got.value), pytest.approx(got.value))
    assert set(got.runs) == {"pre", "dec"}
    assert f"decode moves {words.times(got.value)} the bytes of prefill" in got.sentence


@pytest.mark.parametrize("foreign", [False, True])
def test_a_cost_beside_foreign_traffic_is_called_rough(tmp_path, foreign):
    def rate(second):
        busy = 20 <= second < 60 or 90 <= second < 130
        return 1000 + 200_000 * busy + 80_000 * (foreign and second % 7 < 3)

    links = {("leaf1", "swp1", "tx"): rate, ("leaf1", "swp1", "rx"): rate}
    both = runs(("a", "one", "decode", 20, 60), ("b", "one", "decode", 90, 130))
    port = {"device": "leaf1", "interface": "swp1", "speed_gbps": 1, "role": "uplink"}
    book = campaign(tmp_path, both, [samples(links, 160)], [port])
    rough = "rough: in 2 of 2 runs something else used the links too"
    assert (rough in fabric.cost(book).sentence) == foreign
    notes = " ".join(fabric.bytes_per_token(book).notes)
    assert ("the idle level is not steady" in notes) == foreign
    assert "not known" not in notes


def test_in_against_out(tmp_path):
    got = fabric.in_and_out(one_port(tmp_path))
    assert column(got, "In (MB)").tolist() == pytest.approx([100, 40])
    assert column(got, "Out (MB)").tolist() == pytest.approx([200, 80])
    assert column(got, "Out over in").tolist() == pytest.approx([2, 2])
    assert got.title == "2 times as much went out of the ports as came in"


def test_the_longest_burst_that_a_reading_could_hide(tmp_path):
    got = fabric.hidden(one_port(tmp_path, speed=0.1, step=2))
    burst = column(got, "Longest burst").max()
    assert burst == pytest.approx(0.8)  # 40 % of 2 s
    assert "800 ms" in got.title


def test_the_port_that_stands_apart_is_named(rails):
    got = fabric.each_port(rails)
    apart = got.table[got.table["Stands apart"]]
    assert apart["Port"].unique().tolist() == ["leaf n2-e7"]
    assert apart["From the median (%)"].tolist() == pytest.approx([200, 200])
    assert got.title.startswith("leaf n2-e7 (in +200 %, out +200 %) stands apart")


def test_one_port_has_no_neighbours(tmp_path):
    got = fabric.each_port(one_port(tmp_path))
    assert got.chart is None
    assert "Only leaf e1 shows its use by a run" in got.missing


def test_the_cost_in_large_type_is_that_of_the_sentence(tmp_path):
    phases = [("a", "one", "decode", 20, 60), ("b", "one", "decode", 80, 90)]
    links = {("leaf", "e1", "tx"): lambda i: 5_000_000 if 20 <= i < 60 else 1_000_000}
    ports = [{"device": "leaf", "interface": "e1", "role": "uplink", "node": "n1"}]
    got = fabric.cost(campaign(tmp_path, runs(*phases), [samples(links, 140)], ports))
    # 160 MB above idle over 1,000 tokens: 160 kB; the median of the two runs would be 170 kB.
    assert f"{words.bytes_size(got.value)} " in got.sentence


def test_a_link_that_is_always_as_busy_is_not_passed_over(tmp_path):
    links = {
        ("leaf", "e1", "tx"): busy(0, 5_000_000, 2_000_000),
        ("leaf", "e2", "tx"): lambda _: 90_000_000,
    }
    got = fabric.peak(campaign(tmp_path, runs(*PHASES), [samples(links, 140)], []))
    assert got.sentence.startswith("No link whose readings show a run's traffic carried more than")
    told = fabric.watched(campaign(tmp_path, runs(*PHASES), [samples(links, 140)], [])).notes
    assert any(note.startswith("1 link without a run's level (leaf e2)") for note in told)
    cost = fabric.cost(campaign(tmp_path, runs(*PHASES), [samples(links, 140)], []))
    assert "0.000" not in cost.sentence


def test_links_of_a_node_are_added(rails):
    got = fabric.nodes(rails)
    top = got.table[(got.table["Node"] == "n2") & (got.table["Run"] == "pre")]
    # 15 x 10 + 30 MB/s = 180 MB/s = 1.44 Gbit/s of 16 Gbit/s.
    assert top["Usual (Gbit/s)"].tolist() == pytest.approx([1.44, 1.44])
    assert column(got, "Usual (% ").max() == pytest.approx(9)
    assert set(got.table["Links"]) == {16}


def test_many_ports_are_drawn_as_one_panel_per_node(rails):
    got = fabric.over_time(rails)
    spec = specification(got.chart)
    titles = {v["title"]["text"] for v in spec["vconcat"] if "title" in v}
    assert titles == {"n1 · 16 ports", "n2 · 16 ports"}
    assert set(got.table["Links"]) == {16}


def test_resets_and_gaps_are_marked_and_counted(broken):
    got = fabric.over_time(broken)
    assert "2 resets: no line crosses one." in got.notes
    assert "2 gaps: no line crosses one." in got.notes


def test_runs_without_counters_and_counters_without_runs_are_told(elsewhere):
    told = " ".join(fabric.unwatched(elsewhere).paragraphs)
    assert "2 runs went on while no counter was read" in told
    assert "1 decode on one node" in told
    assert "Counters that overlap no run: counters.json" in told


def test_two_sources_of_one_interface(tmp_path):
    fine = samples({("h-a", "lo", "tx"): busy(1000, 5e6, 2e6)}, 140, source="a.json")
    coarse = samples({("h-b", "lo", "tx"): busy(1000, 5.2e6, 2.08e6)}, 140, source="b.json")
    host = [
        {"device": d, "interface": "lo", "role": "host", "node": "h", "speed_gbps": 0.1}
        for d in ("h-a", "h-b")
    ]
    book = campaign(tmp_path, runs(*PHASES), [fine, coarse], host)
    got = fabric.agree(book)
    assert column(got, "Deviation").tolist() == pytest.approx([4], abs=0.01)
    assert "disagree by up to 4.0 %" in got.title
    # One interface, so its bytes count once.
    assert fabric.bytes_per_token(book).table["Links"].max() == 1
    assert "1 link, read from 2 sources" in fabric.watched(book).title


def test_two_builds_give_the_same_output(tmp_path):
    outputs = []
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        book = one_port(tmp_path / name, speed=0.1, reset_at=40)
        outputs.append([str(shown(cell(book))) for cell in CELLS])
    assert outputs[0] == outputs[1]
