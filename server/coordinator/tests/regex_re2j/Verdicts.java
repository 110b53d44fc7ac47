// The verdicts of RE2J. The program reads lines of an expression and names, separated by tabs. It
// answers a line with the description of the error, or with 1 or 0 for each name: whether the
// expression matches the whole name. If RE2J does not end (it loops on folding some characters
// beyond ASCII), the answer is "endless". Backslash, tab, line feed and carriage return are written
// \\ \t \n \r.
//
//     javac -cp $RE2J_JAR -d DIR Verdicts.java && java -cp $RE2J_JAR:DIR Verdicts

import com.google.re2j.Pattern;
import com.google.re2j.PatternSyntaxException;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;

public class Verdicts {
    public static void main(String[] arguments) throws Exception {
        var in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        var out = new PrintStream(System.out, false, StandardCharsets.UTF_8);
        ExecutorService executor = daemon();
        for (String line; (line = in.readLine()) != null; ) {
            String[] fields = line.split("\t", -1);
            try {
                out.println(executor.submit(() -> verdict(fields)).get(3, TimeUnit.SECONDS));
            } catch (TimeoutException e) {
                out.println("endless");
                executor = daemon();
            }
        }
        out.flush();
    }

    private static ExecutorService daemon() {
        return Executors.newSingleThreadExecutor(task -> {
            var thread = new Thread(task);
            thread.setDaemon(true);
            return thread;
        });
    }

    private static String verdict(String[] fields) {
        try {
            Pattern pattern = Pattern.compile(unescaped(fields[0]));
            var verdict = new StringBuilder();
            for (int i = 1; i < fields.length; i++) {
                verdict.append(pattern.matcher(unescaped(fields[i])).matches() ? '1' : '0');
            }
            return verdict.toString();
        } catch (PatternSyntaxException e) {
            return e.getDescription();
        }
    }

    private static String unescaped(String field) {
        var text = new StringBuilder();
        for (int i = 0; i < field.length(); i++) {
            char c = field.charAt(i);
            if (c == '\\') {
                c = field.charAt(++i);
                c = c == 't' ? '\t' : c == 'n' ? '\n' : c == 'r' ? '\r' : c;
            }
            text.append(c);
        }
        return text.toString();
    }
}
